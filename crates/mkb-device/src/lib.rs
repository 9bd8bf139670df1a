//! The virtual GPU as a process: arena, launch protocol, tape and account.
