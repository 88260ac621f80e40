//! The pure parts, without any IO: what follows a run, what a topic is, how ids are made.

mod rules {
    mod clock;
    mod delivery;
    mod policy;
    mod topic;
    mod verdict;
}
