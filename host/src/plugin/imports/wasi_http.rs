//! `wasi:http/outgoing-handler`: the same requests as `rind:plugin/http`, for guests whose language
//! or library uses WASI.
//!
//! This module only converts between the types of WASI and those of [`crate::egress`], which
//! contains all rules for requests. Differences that a guest can see: the host follows redirects; a
//! response starts when its body is complete; trailers are neither sent nor received; a
//! `content-length` request header is allowed (it must be correct) and is rewritten; an error is
//! reduced to its code, and its text is in the access record.

use std::sync::Arc;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use wasmtime::component::ResourceTable;
use wasmtime_wasi_http::{
    DEFAULT_FORBIDDEN_HEADERS, Error as WasiError, ForbiddenHeaderFilter, RequestOptions, WasiBody,
    WasiHttpCtx, WasiHttpCtxView, WasiHttpHooks,
};

use crate::egress::{
    EgressErrorKind, EgressRequest, EgressRequestBody, EgressResponse, Error,
    MAX_REQUEST_BODY_BYTES, MAX_REQUEST_HEADER_BYTES, MAX_RESPONSE_BODY_BYTES,
    PluginRequestTimeouts, PluginSessionEgress, is_forbidden_plugin_header,
};
use crate::point::trace::Origin;

/// Maximum size of one write to an HTTP body, in bytes. Every open body buffers two of them.
const MAX_BODY_WRITE_BYTES: usize = 64 << 10;

type HttpConnectionFuture = Box<dyn Future<Output = Result<(), WasiError>> + Send>;
type HttpResponseFuture = Box<
    dyn Future<Output = Result<(http::Response<WasiBody>, HttpConnectionFuture), WasiError>> + Send,
>;

pub(in super::super) struct WasiHttpContextAndHooks {
    ctx: WasiHttpCtx,
    hooks: OutgoingRequestHooks,
}

struct OutgoingRequestHooks {
    egress: Option<Arc<PluginSessionEgress>>,
    origin: Origin,
}

impl WasiHttpContextAndHooks {
    pub(in super::super) fn new(egress: Option<Arc<PluginSessionEgress>>) -> Self {
        let mut ctx = WasiHttpCtx::new();
        ctx.set_field_size_limit(MAX_REQUEST_HEADER_BYTES);
        let origin = Origin::default();
        Self {
            ctx,
            hooks: OutgoingRequestHooks { egress, origin },
        }
    }

    pub(in super::super) fn http_view<'a>(
        &'a mut self,
        table: &'a mut ResourceTable,
        origin: Origin,
    ) -> WasiHttpCtxView<'a> {
        self.hooks.origin = origin;
        WasiHttpCtxView {
            hooks: &mut self.hooks,
            table,
            ctx: &mut self.ctx,
        }
    }
}

impl WasiHttpHooks for OutgoingRequestHooks {
    fn forbidden_header_filter(&mut self) -> ForbiddenHeaderFilter {
        Arc::new(|name| {
            let is_length = *name == http::header::CONTENT_LENGTH;
            DEFAULT_FORBIDDEN_HEADERS.contains(name)
                || (is_forbidden_plugin_header(name.as_str()) && !is_length)
        })
    }

    /// Returns `false`, so that wasmtime sets no `Host` header: `egress` sets the header from the
    /// URL that it has checked.
    fn set_host_header(&mut self) -> bool {
        false
    }

    fn p2_outgoing_body_chunk_size(&mut self) -> usize {
        MAX_BODY_WRITE_BYTES
    }

    fn send_request(
        &mut self,
        request: http::Request<WasiBody>,
        options: Option<RequestOptions>,
        _done: HttpConnectionFuture,
    ) -> HttpResponseFuture {
        let (egress, origin) = (self.egress.clone(), self.origin.clone());
        Box::new(async move {
            // A plugin that is being loaded, for example to list its tools, has no network access.
            let egress = egress.ok_or(WasiError::HttpRequestDenied)?;
            let answer = egress.send(convert_request(request, options), origin).await;
            let io: HttpConnectionFuture = Box::new(async { Ok(()) });
            Ok((convert_response(answer.map_err(convert_to_wasi_error)?), io))
        })
    }
}

fn convert_request(
    request: http::Request<WasiBody>,
    options: Option<RequestOptions>,
) -> EgressRequest {
    let (head, body) = request.into_parts();
    let headers = head.headers.iter();
    EgressRequest {
        method: head.method.to_string(),
        url: head.uri.to_string(),
        headers: headers
            .filter(|(name, _)| *name != http::header::CONTENT_LENGTH)
            .map(|(name, value)| (name.to_string(), value.as_bytes().to_vec()))
            .collect(),
        body: EgressRequestBody::Later(Box::pin(collect_body(body))),
        timeouts: options.map_or_else(PluginRequestTimeouts::default, |options| {
            PluginRequestTimeouts {
                connect: options.connect_timeout,
                first_byte: options.first_byte_timeout,
                between_bytes: options.between_bytes_timeout,
            }
        }),
    }
}

/// Collects a request body until the guest has finished writing it.
async fn collect_body(mut body: WasiBody) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    while let Some(frame) = body.frame().await {
        let refuse = |text| Err(Error::new(EgressErrorKind::RequestBody, text));
        let Ok(frame) = frame else {
            return refuse("the body of the request was not finished");
        };
        let Ok(piece) = frame.into_data() else {
            return refuse("trailers are not sent");
        };
        if bytes.len() + piece.len() > MAX_REQUEST_BODY_BYTES {
            return Err(Error::request_too_long_error());
        }
        bytes.extend_from_slice(&piece);
    }
    Ok(bytes)
}

/// Converts a response. Until the guest has read or dropped the body, the request counts towards
/// the plugin's limit of concurrent requests.
fn convert_response(response: EgressResponse) -> http::Response<WasiBody> {
    let EgressResponse {
        status,
        headers,
        body,
        place,
    } = response;
    let body = Full::new(Bytes::from(body)).map_frame(move |frame| {
        let _held = &place;
        frame
    });
    let mut incoming = http::Response::new(body.map_err(WasiError::from).boxed_unsync());
    *incoming.status_mut() = http::StatusCode::from_u16(status).unwrap_or_default();
    *incoming.headers_mut() = headers;
    incoming
}

/// Returns the WASI error code that is closest to an error.
fn convert_to_wasi_error(error: Error) -> WasiError {
    match error.kind {
        EgressErrorKind::Url => WasiError::HttpRequestUriInvalid,
        EgressErrorKind::Method => WasiError::HttpRequestMethodInvalid,
        EgressErrorKind::HeaderSize => WasiError::HttpRequestHeaderSectionSize(None),
        EgressErrorKind::Address => WasiError::DestinationIpProhibited,
        EgressErrorKind::Requests => WasiError::ConnectionLimitReached,
        EgressErrorKind::RequestBody => {
            WasiError::HttpRequestBodySize(Some(MAX_REQUEST_BODY_BYTES as u64))
        }
        EgressErrorKind::Resolve => WasiError::DnsError {
            rcode: None,
            info_code: None,
        },
        EgressErrorKind::Connect => WasiError::ConnectionRefused,
        EgressErrorKind::Timeout => WasiError::ConnectionTimeout,
        EgressErrorKind::ResponseSize => {
            WasiError::HttpResponseBodySize(Some(MAX_RESPONSE_BODY_BYTES as u64))
        }
        EgressErrorKind::Response => WasiError::HttpResponseIncomplete,
        _ => WasiError::HttpRequestDenied,
    }
}
