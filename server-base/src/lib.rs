//! What a master and a tablet server share: flags, identity, clock, GenericService, logging, signals
