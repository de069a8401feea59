import Foundation
/// A foo.
public class Foo: Bar, Baz {
    let svc: Svc
    init(svc: Svc) { self.svc = svc }
    /// Goes.
    func go(_ a: Foo) -> Bar {
        let x = Q()
        svc.run(a)?.then()
        help()
        Other.st()
        return x.y()
    }
}
struct S { var a: Int }
protocol P { func m() }
enum E { case a, b }
extension Foo { func ext() {} }
func top(a: Int) -> Foo { return Foo() }
typealias T = Foo
