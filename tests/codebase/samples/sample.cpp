#include "a.hpp"
namespace ns {
/// A foo.
class Foo : public Bar, private q::Baz<int> {
 public:
  Foo(int a) : x(a) { init(); }
  void m(const Foo& f) const override { this->x.go(); n(); Other::st(); }
 private:
  Bar* x;
};
template <typename T> T tf(T t) { auto p = std::make_unique<Foo>(1); Foo* r = new Foo(); p->m(); return t; }
}
void ns::Foo::n() { m(*this); }
int operator+(Foo a, Foo b) { return 1; }
enum class Color { Red };
using Al = Foo;
