require_relative './b'
# A module.
module M
  # A foo.
  class Foo < Bar::Baz
    include Mixin
    K = 1
    def initialize(a)
      @svc = Svc.new(a)
    end
    def self.make(a)
      new(a)
    end
    # Goes.
    def go(a)
      x = Foo.new(1)
      @svc.do(a).then { |z| z.q }
      help a
      super
    end
  end
end
def top
  M::Foo.make(1)
end
