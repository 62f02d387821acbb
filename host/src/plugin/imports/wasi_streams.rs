//! Output streams that write to files. Each write is charged to the quota before it happens, and
//! recorded if it fails.

use std::fs::File;
use std::sync::Arc;

use bytes::Bytes;
use wasmtime_wasi::p2::{DynOutputStream, OutputStream, Pollable, StreamError, StreamResult};

use super::super::access_log::FailedFileAccessRecorder;
use crate::folder::{DataFolderUsage, FolderError};
use crate::point::trace::AccessOutcome;

/// Output stream of wasmtime that writes to a file within the folder's quota.
pub(super) struct QuotaFileOutputStream {
    pub(super) inner: DynOutputStream,
    pub(super) file: Arc<File>,
    /// Offset in the file of the next byte to write; `None` when appending.
    pub(super) position: Option<u64>,
    /// Quota to which writes are charged; `None` in the workspace.
    pub(super) usage: Option<Arc<DataFolderUsage>>,
    /// Guard that marks the file as being written to; `None` while no data waits to be written.
    pub(super) writing: Option<Arc<()>>,
    pub(super) access_log: FailedFileAccessRecorder,
    pub(super) target: String,
}

/// Returns the number of bytes by which a file grows when `length` bytes are written at `position`,
/// or at the end of the file for `None`.
pub(super) fn file_growth(file: &File, position: Option<u64>, length: u64) -> std::io::Result<u64> {
    let Some(position) = position else {
        return Ok(length);
    };
    let size = file.metadata()?.len();
    Ok(position.saturating_add(length).saturating_sub(size))
}

impl QuotaFileOutputStream {
    fn charge_write(&mut self, length: usize) -> StreamResult<()> {
        let length = length as u64;
        if let Some(usage) = &self.usage {
            self.writing = usage.register_write_in_progress(&self.file);
            let charged = file_growth(&self.file, self.position, length)
                .map_err(FolderError::from)
                .and_then(|bytes| usage.charge_open_file_growth(bytes));
            if let Err(error) = charged {
                let text = error.to_string();
                self.access_log.record_failed_file_access(
                    &self.target,
                    AccessOutcome::Denied,
                    &text,
                );
                return Err(StreamError::LastOperationFailed(error.into()));
            }
        }
        if let Some(position) = &mut self.position {
            *position = position.saturating_add(length);
        }
        Ok(())
    }

    fn record_stream_failure<T>(&self, result: StreamResult<T>) -> StreamResult<T> {
        if let Err(StreamError::LastOperationFailed(error)) = &result {
            self.access_log.record_failed_file_access(
                &self.target,
                AccessOutcome::Failed,
                &error.to_string(),
            );
        }
        result
    }
}

#[wasmtime_wasi::async_trait]
impl OutputStream for QuotaFileOutputStream {
    /// Writes the bytes. Traps if there are more than `check_write` allows, because wasmtime's
    /// stream accepts any length and buffers unwritten data in the host's memory.
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        if bytes.len() > self.check_write()? {
            return Err(StreamError::trap(
                "a stream was given more than `check-write` allows",
            ));
        }
        self.charge_write(bytes.len())?;
        let result = self.inner.write(bytes);
        self.record_stream_failure(result)
    }

    fn flush(&mut self) -> StreamResult<()> {
        let result = self.inner.flush();
        self.record_stream_failure(result)
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        let result = self.inner.check_write();
        if !matches!(result, Ok(0)) {
            self.writing = None;
        }
        self.record_stream_failure(result)
    }

    async fn blocking_write_and_flush(&mut self, bytes: Bytes) -> StreamResult<()> {
        self.charge_write(bytes.len())?;
        let result = self.inner.blocking_write_and_flush(bytes).await;
        self.writing = None;
        self.record_stream_failure(result)
    }

    async fn cancel(&mut self) {
        self.inner.cancel().await;
    }
}

#[wasmtime_wasi::async_trait]
impl Pollable for QuotaFileOutputStream {
    async fn ready(&mut self) {
        self.inner.ready().await;
    }
}
