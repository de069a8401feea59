use crate::a::{b, c as d};
use super::f;
mod inner;
mod m2 {
    pub fn x() {}
}
/// A foo.
#[derive(Debug)]
pub struct Foo<T> {
    a: Bar,
}
pub enum E { A(i32), B }
pub trait Tr: Sup {
    fn m(&self) -> i32;
    fn d(&self) { self.m(); }
}
impl<T> Tr for Foo<T> {
    fn m(&self) -> i32 { self.a.go()?; Foo::new(1); x.y::<T>().await }
}
impl Foo {
    pub const K: u8 = 1;
    /// Makes one.
    pub fn new(a: &Bar) -> Self { Self { a } }
}
const C: i32 = 1;
macro_rules! mm { () => {} }
fn f(a: &mut Foo) -> Result<Foo> { let x = Foo::new(); mm!(g(a)); x }
