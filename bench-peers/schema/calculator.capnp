# The calculator of Kudu's rpc-bench. The build script makes the stubs from it, with the program `capnp`.
@0xb1d6f2a9c07e4d53;

interface Calculator {
  add @0 (x :UInt32, y :UInt32) -> (result :UInt32);
}
