<?php
namespace A\B;
use C\D\E;
use F\{G, H as I};
/** A foo. */
abstract class Foo extends Bar implements Baz {
    use Tr;
    const K = 1;
    private Svc $svc;
    public function __construct(private Svc $s) { $this->svc = new Svc(); }
    /** Goes. */
    public static function go(Foo $a): Bar { $x = new Q(); $this->svc->do($a)->then(); self::st(); parent::m(); help(); E::f(); return $x; }
}
interface Baz {}
trait Tr {}
enum En { case A; }
function help(int $a): Foo { return new Foo; }
const Z = 1;
