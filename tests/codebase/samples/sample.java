package com.x;
import com.y.Z;
import com.z.*;
/** An a. */
@Ann(1)
public class A<T> extends B<T> implements C, D {
    private final Foo foo = new Foo();
    static final int K = 1;
    A(Foo f) { super(f); this.foo = f; }
    /** Does m. */
    @Override
    public Bar m(Foo a, int... b) {
        foo.go(a).then();
        Util.s();
        helper();
        var q = new Baz<>();
        return null;
    }
    enum E { X, Y }
    interface I extends J { void n(); }
    record R(int a) {}
}
