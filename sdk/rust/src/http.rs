//! Sends HTTP requests to the hosts that the plugin was granted. Needs the side effect `network`.
//!
//! The host inserts the credentials that the manifest names; the plugin never sees them.

pub use crate::bindings::rind::plugin::http::{Header, Request, Response};
use crate::types::Error;
use serde::{Serialize, de::DeserializeOwned};

#[cfg(target_family = "wasm")]
use crate::bindings::rind::plugin::http as host;
#[cfg(not(target_family = "wasm"))]
use crate::testing::http as host;

/// Sends a request and waits for the complete answer. Redirects are followed.
///
/// # Errors
/// The host refused the request, or no answer arrived.
pub fn send(request: &Request) -> Result<Response, Error> {
    host::send(request)
}

impl Request {
    /// Creates a request without headers and body.
    #[must_use]
    pub fn new(method: impl Into<String>, url: impl Into<String>) -> Self {
        Self {
            method: method.into(),
            url: url.into(),
            headers: Vec::new(),
            body: Vec::new(),
        }
    }

    /// Creates a GET request.
    #[must_use]
    pub fn get(url: impl Into<String>) -> Self {
        Self::new("GET", url)
    }

    /// Creates a POST request with a JSON body.
    ///
    /// # Errors
    /// When the value cannot be written as JSON.
    pub fn post_json<T: Serialize + ?Sized>(
        url: impl Into<String>,
        value: &T,
    ) -> Result<Self, Error> {
        let request = Self::new("POST", url).header("content-type", "application/json");
        Ok(Self {
            body: serde_json::to_vec(value)?,
            ..request
        })
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push(Header {
            name: name.into(),
            value: value.into(),
        });
        self
    }
}

impl Response {
    /// Whether the status is 200 to 299.
    #[must_use]
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// Returns the body as text; bytes that are not UTF-8 are replaced.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Parses the body as a type of the plugin, or as [`serde_json::Value`].
    ///
    /// # Errors
    /// When the body does not fit the type.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, Error> {
        Ok(serde_json::from_slice(&self.body)?)
    }
}
