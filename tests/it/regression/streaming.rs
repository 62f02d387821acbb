//! Text that leaves the process, and the origin of text that enters a request.
