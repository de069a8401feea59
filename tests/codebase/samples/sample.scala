package a.b
import c.d.{E, F => G}
import h.I
/** A foo. */
class Foo(svc: Svc) extends Bar(x) with Baz {
  val p: Q = new Q()
  /** Goes. */
  def go(a: Foo): Bar = {
    val x = new Q
    svc.run(a).next()
    help()
    Other.st(1)
  }
}
object Foo {
  val K = 1
  def apply() = new Foo
}
trait Baz {
  def m(): Int
}
case class D(a: Int)
enum E { case A }
type T = Foo
