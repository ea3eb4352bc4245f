# The calculator of Kudu's rpc-bench. `src/gen/calculator_capnp.rs` is made from it by capnpc 0.27 (and `capnp` 0.9.2).
@0xb1d6f2a9c07e4d53;

interface Calculator {
  add @0 (x :UInt32, y :UInt32) -> (result :UInt32);
}
