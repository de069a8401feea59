import def, {a as b, c} from './m';
import * as ns from "./n.js";
const {x} = require('./o');
const w = require('./p');
export {q} from './r';
/** A foo. */
export default class Foo extends Bar.Baz {
  static s = 1;
  handler = (e) => { this.m(e); };
  constructor(a) { super(a); this.t = new T(a); }
  /** Does m. */
  async m(p) { return this.t.go(p)?.then(); }
}
// Doubles.
export const arrow = async (a) => { foo(a); };
var f = function(a) { return a; };
function* gen() { yield ns.z(); }
exports.helper = function() { gen(); };
const LIMIT = 3;
