//! Kudu's columns, keys, partitions, row operations, result blocks and predicates, without any IO
