//! Tests of text that leaves the process, and of the origin of text that enters a request.

mod doors;
mod origin;
mod rights;
mod shown;
