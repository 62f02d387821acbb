//! Text that leaves the process, and the origin of text that enters a request.

mod doors;
mod origin;
mod rights;
mod shown;
