import type {A} from './a';
/** An i. */
export interface I<T> extends J { m(a: number): string; p: Foo; }
@Injectable()
export abstract class C<T> extends D<T> implements I, K {
  private readonly x: Foo = new Foo();
  constructor(private svc: Service) { super(); }
  m(a: Foo): Bar { return (a as Baz).go<T>(this.svc.call()); }
  abstract n(): void;
}
type U = A | B;
enum E { X }
namespace N { export function f() {} }
let v: Foo;
declare function g(): Foo;
const h = (a: Foo): Bar => a!.b();
