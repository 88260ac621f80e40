-- Purpose: a number that changes when another connection has committed. Index: none. Locks: a read lock for the moment.
pragma data_version;
