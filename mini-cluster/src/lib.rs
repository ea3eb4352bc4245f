//! A cluster of one master and some tablet servers in one process or as child processes, for tests and laptops
