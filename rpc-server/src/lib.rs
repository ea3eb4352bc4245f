//! Kudu RPC servers: acceptors, service registry, deadline queue, workers, exactly-once results
