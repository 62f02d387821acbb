//! `rind:plugin/http`: requests to the granted hosts. The rules for requests are in
//! [`crate::egress`].

use super::super::bindings::rind::plugin::http;
use super::super::host::HostState;
use crate::egress::{EgressRequest, EgressRequestBody, EgressResponse, PluginRequestTimeouts};
use crate::point::handle::HostFunctionError;

impl http::Host for HostState {
    async fn send(&mut self, request: http::Request) -> Result<http::Response, HostFunctionError> {
        let Some(egress) = self.backing.egress.clone() else {
            let text = "requests cannot be sent while the plugin is loaded and lists its tools";
            return Err(HostFunctionError::Denied(text.to_owned()));
        };
        let headers = request.headers.into_iter();
        let request = EgressRequest {
            method: request.method,
            url: request.url,
            headers: headers
                .map(|header| (header.name, header.value.into_bytes()))
                .collect(),
            body: EgressRequestBody::Whole(request.body),
            timeouts: PluginRequestTimeouts::default(),
        };
        let answer = egress.send(request, self.call.caller.action_origin()).await;
        Ok(convert_response(answer?))
    }
}

fn convert_response(response: EgressResponse) -> http::Response {
    let header = |(name, value): (&::http::HeaderName, &::http::HeaderValue)| http::Header {
        name: name.to_string(),
        value: String::from_utf8_lossy(value.as_bytes()).into_owned(),
    };
    http::Response {
        status: response.status,
        headers: response.headers.iter().map(header).collect(),
        body: response.body,
    }
}
