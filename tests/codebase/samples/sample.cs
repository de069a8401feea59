using System;
using A = B.C;
namespace N.M {
  /// <summary>A foo.</summary>
  [Attr(1)]
  public class Foo<T> : Bar, IBaz {
    private readonly Svc _svc;
    public int P { get; set; }
    const int K = 1;
    public Foo(Svc s) : base(s) { _svc = s; }
    public async Task<Bar> Go(Foo a) { var x = new Baz(); await _svc.Do(a).Then(); Help(); return x?.y(); }
  }
  interface IBaz { void M(); }
  struct S {}
  enum E { A }
  record R(int a);
}
