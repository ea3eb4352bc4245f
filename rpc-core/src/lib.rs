//! Kudu's RPC protocol: frames and negotiation as a machine without sockets, reactors that move the bytes, outbound calls
