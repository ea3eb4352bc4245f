//! The code generator: .proto text to messages, method markers and required-field tables
