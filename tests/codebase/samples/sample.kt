package a.b
import c.d.E
import f.G as H
/** A foo. */
@Ann
class Foo(private val svc: Svc, x: Int) : Bar(x), Baz {
    val p: Q = Q()
    companion object {
        const val K = 1
        fun make() = Foo()
    }
    /** Goes. */
    override fun go(a: Foo): Bar {
        val x = Q()
        svc.doIt(a)?.then()
        help()
        return x!!.y()
    }
}
interface Baz {
    fun m()
}
object Obj {
    fun o() {}
}
enum class E { A, B }
fun String.ext(a: Int): Foo = Foo(a)
typealias T = Foo
const val TOP = 1
