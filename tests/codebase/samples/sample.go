package main

import (
	"fmt"
	al "x/y/z"
)

// Foo does.
type Foo struct {
	Base
	Bar *baz.Qux
}
type If interface {
	M(a int) error
}
type Alias = Foo

const A = 1

var V = New()

// Do it.
func (f *Foo[T]) Do(a *Bar, b ...string) (*Baz, error) {
	x := NewBar()
	y := &Foo{}
	f.Bar.Go()
	return fmt.Foo(x.y(), (*a).b()), nil
}
func Plain[T any](a T) Foo {
	return Foo{}
}
