//! Socket addresses that are IPv4, IPv6 or unix: parse, print, order, hash, and tell whether they are this machine
