//! Where is the row: tables, partition ranges, replicas, leaders and the endpoint (TCP or unix) to use
