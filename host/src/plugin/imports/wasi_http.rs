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
    Body, Egress, Error, ErrorKind, MAX_HEADER_BYTES, MAX_REQUEST_BYTES, MAX_RESPONSE_BYTES,
    Request, RequestTimeouts, Response, is_refused,
};
use crate::point::trace::Origin;

/// Maximum size of one write to an HTTP body, in bytes. Every open body buffers two of them.
const CHUNK_BYTES: usize = 64 << 10;

type Io = Box<dyn Future<Output = Result<(), WasiError>> + Send>;
type Sending = Box<dyn Future<Output = Result<(http::Response<WasiBody>, Io), WasiError>> + Send>;

pub(in super::super) struct WasiHttp {
    ctx: WasiHttpCtx,
    hooks: OutgoingRequestHooks,
}

struct OutgoingRequestHooks {
    egress: Option<Arc<Egress>>,
    origin: Origin,
}

impl WasiHttp {
    pub(in super::super) fn new(egress: Option<Arc<Egress>>) -> Self {
        let mut ctx = WasiHttpCtx::new();
        ctx.set_field_size_limit(MAX_HEADER_BYTES);
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
            DEFAULT_FORBIDDEN_HEADERS.contains(name) || (is_refused(name.as_str()) && !is_length)
        })
    }

    /// Returns `false`, so that wasmtime sets no `Host` header: `egress` sets the header from the
    /// URL that it has checked.
    fn set_host_header(&mut self) -> bool {
        false
    }

    fn p2_outgoing_body_chunk_size(&mut self) -> usize {
        CHUNK_BYTES
    }

    fn send_request(
        &mut self,
        request: http::Request<WasiBody>,
        options: Option<RequestOptions>,
        _done: Io,
    ) -> Sending {
        let (egress, origin) = (self.egress.clone(), self.origin.clone());
        Box::new(async move {
            // A plugin that is being loaded, for example to list its tools, has no network access.
            let egress = egress.ok_or(WasiError::HttpRequestDenied)?;
            let answer = egress.send(convert_request(request, options), origin).await;
            let io: Io = Box::new(async { Ok(()) });
            Ok((convert_response(answer.map_err(convert_to_wasi_error)?), io))
        })
    }
}

fn convert_request(request: http::Request<WasiBody>, options: Option<RequestOptions>) -> Request {
    let (head, body) = request.into_parts();
    let headers = head.headers.iter();
    Request {
        method: head.method.to_string(),
        url: head.uri.to_string(),
        headers: headers
            .filter(|(name, _)| *name != http::header::CONTENT_LENGTH)
            .map(|(name, value)| (name.to_string(), value.as_bytes().to_vec()))
            .collect(),
        body: Body::Later(Box::pin(collect_body(body))),
        timeouts: options.map_or_else(RequestTimeouts::default, |options| RequestTimeouts {
            connect: options.connect_timeout,
            first_byte: options.first_byte_timeout,
            between_bytes: options.between_bytes_timeout,
        }),
    }
}

/// Collects a request body until the guest has finished writing it.
async fn collect_body(mut body: WasiBody) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    while let Some(frame) = body.frame().await {
        let refuse = |text| Err(Error::new(ErrorKind::RequestBody, text));
        let Ok(frame) = frame else {
            return refuse("the body of the request was not finished");
        };
        let Ok(piece) = frame.into_data() else {
            return refuse("trailers are not sent");
        };
        if bytes.len() + piece.len() > MAX_REQUEST_BYTES {
            return Err(Error::request_too_long_error());
        }
        bytes.extend_from_slice(&piece);
    }
    Ok(bytes)
}

/// Converts a response. Until the guest has read or dropped the body, the request counts towards
/// the plugin's limit of concurrent requests.
fn convert_response(response: Response) -> http::Response<WasiBody> {
    let Response {
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
        ErrorKind::Url => WasiError::HttpRequestUriInvalid,
        ErrorKind::Method => WasiError::HttpRequestMethodInvalid,
        ErrorKind::HeaderSize => WasiError::HttpRequestHeaderSectionSize(None),
        ErrorKind::Address => WasiError::DestinationIpProhibited,
        ErrorKind::Requests => WasiError::ConnectionLimitReached,
        ErrorKind::RequestBody => WasiError::HttpRequestBodySize(Some(MAX_REQUEST_BYTES as u64)),
        ErrorKind::Resolve => WasiError::DnsError {
            rcode: None,
            info_code: None,
        },
        ErrorKind::Connect => WasiError::ConnectionRefused,
        ErrorKind::Timeout => WasiError::ConnectionTimeout,
        ErrorKind::ResponseSize => WasiError::HttpResponseBodySize(Some(MAX_RESPONSE_BYTES as u64)),
        ErrorKind::Response => WasiError::HttpResponseIncomplete,
        _ => WasiError::HttpRequestDenied,
    }
}
