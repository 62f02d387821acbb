//! Does one thing to a file: with Rust's standard library, and with the `files` import. Answers `ok: …` or `error: …`, so
//! that a test can tell an ordinary error from a plugin that broke.

#[rind_sdk::plugin]
mod guest_files {
    use rind_sdk::files;
    use rind_sdk::prelude::*;
    use std::fs::{self, File, OpenOptions};
    use std::io::{self, Read, Seek, SeekFrom, Write};
    use std::time::{Duration, SystemTime};

    /// Action.
    #[args]
    struct Do {
        /// Operation to try.
        op: String,
        /// Path as the guest sees it.
        path: String,
        /// Another path, a link's target, or what to write.
        #[serde(default)]
        to: String,
    }

    fn names(path: &str) -> io::Result<String> {
        let entries = fs::read_dir(path)?.collect::<io::Result<Vec<_>>>()?;
        let mut names: Vec<String> = entries
            .iter()
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        Ok(names.join(" "))
    }

    /// Writes 64 KiB at a time until it is stopped, and says how much there was then.
    fn flood(path: &str, options: &mut OpenOptions) -> io::Result<String> {
        let mut file = options.create(true).open(path)?;
        let chunk = vec![7_u8; 64 << 10];
        let mut n_bytes = 0_u64;
        loop {
            match file.write(&chunk) {
                Ok(n) => n_bytes += n as u64,
                Err(error) => return Ok(format!("{n_bytes} {:?}", error.kind())),
            }
        }
    }

    /// Opens streams into a file until it is refused, and lets go of the handles.
    fn keep_streams(path: &str) -> Option<usize> {
        use wasip2::filesystem::preopens::get_directories;
        use wasip2::filesystem::types::{DescriptorFlags, OpenFlags, PathFlags};
        let mut folders = get_directories().into_iter();
        let (folder, _) = folders.find(|(_, name)| name == "/data")?;
        let (no, none) = (PathFlags::empty(), OpenFlags::empty());
        let mut kept = Vec::new();
        while let Ok(file) = folder.open_at(no, path, none, DescriptorFlags::READ) {
            kept.push(file.read_via_stream(0).ok()?);
        }
        Some(kept.len())
    }

    /// Hands a stream 256 KiB at once, without asking how much it takes.
    fn write_unasked(path: &str) -> Option<String> {
        use wasip2::filesystem::preopens::get_directories;
        use wasip2::filesystem::types::{DescriptorFlags, OpenFlags, PathFlags};
        let mut folders = get_directories().into_iter();
        let (folder, _) = folders.find(|(_, name)| name == "/data")?;
        let (no, create) = (PathFlags::empty(), OpenFlags::CREATE);
        let file = folder.open_at(no, path, create, DescriptorFlags::WRITE);
        let stream = file.ok()?.write_via_stream(0).ok()?;
        stream.write(&[7; 256 << 10]).ok()?;
        Some("taken".to_owned())
    }

    fn with_std(Do { op, path, to }: &Do) -> io::Result<String> {
        let done = |()| String::new();
        match op.as_str() {
            "read" => fs::read_to_string(path),
            "write" => fs::write(path, to).map(done),
            "append" => OpenOptions::new()
                .append(true)
                .open(path)?
                .write_all(to.as_bytes())
                .map(done),
            // Waits until it is allowed to end.
            "append-and-wait" => {
                let mut file = OpenOptions::new().create(true).append(true).open(path)?;
                file.write_all(to.as_bytes())?;
                while fs::metadata(format!("{path}.go")).is_err() {
                    std::thread::sleep(Duration::from_millis(10));
                }
                Ok(String::new())
            }
            "create-new" => File::create_new(path).map(|_| String::new()),
            "truncate" => OpenOptions::new()
                .write(true)
                .truncate(true)
                .open(path)
                .map(|_| String::new()),
            "resize" => OpenOptions::new()
                .write(true)
                .open(path)?
                .set_len(to.parse().unwrap_or(0))
                .map(done),
            "list" => names(path),
            "stat" => fs::metadata(path).map(|m| format!("{} {}", m.is_dir(), m.len())),
            "create-folder" => fs::create_dir(path).map(done),
            "remove" => fs::remove_file(path).map(done),
            "remove-folder" => fs::remove_dir(path).map(done),
            "rename" => fs::rename(path, to).map(done),
            "hard-link" => fs::hard_link(path, to).map(done),
            #[expect(deprecated, reason = "the other one is not stable for this target")]
            "symlink" => fs::soft_link(to, path).map(done),
            "set-times" => {
                let times = fs::FileTimes::new()
                    .set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(1));
                File::open(path)?.set_times(times).map(done)
            }
            "flood" => flood(path, OpenOptions::new().write(true)),
            "write-unasked" => Ok(write_unasked(path).unwrap_or_default()),
            "flood-append" => flood(path, OpenOptions::new().append(true)),
            "seek-far" => {
                let mut file = OpenOptions::new()
                    .write(true)
                    .create(true)
                    .truncate(false)
                    .open(path)?;
                file.seek(SeekFrom::Start(10 << 30))?;
                file.write_all(b"x").map(done)
            }
            "many" => {
                for n in 0..1_000_000 {
                    if let Err(error) = File::create(format!("{path}/{n}")) {
                        return Ok(format!("{n} {:?}", error.kind()));
                    }
                }
                Ok("no end".to_owned())
            }
            "keep-streams" => Ok(format!("{} kept", keep_streams(path).unwrap_or_default())),
            "keep-open" => {
                let mut kept = Vec::new();
                loop {
                    match File::open(path) {
                        Ok(file) => kept.push(file),
                        Err(error) => return Ok(format!("{} {:?}", kept.len(), error.kind())),
                    }
                }
            }
            // A file without a name goes on taking room while it is open.
            "unlinked" => {
                let mut kept = Vec::new();
                for n in 0..1000 {
                    let name = format!("{path}/{n}");
                    let written = File::create_new(&name)
                        .and_then(|mut file| file.write_all(&vec![7; 256 << 10]).map(|()| file));
                    match written {
                        Ok(file) => kept.push(file),
                        Err(error) => return Ok(format!("{n} {:?}", error.kind())),
                    }
                    fs::remove_file(&name)?;
                }
                Ok("no end".to_owned())
            }
            // Reads a file again and again, and says what it saw besides errors.
            "watch" => {
                let mut seen = std::collections::BTreeSet::new();
                for _ in 0..to.parse().unwrap_or(0) {
                    let mut content = String::new();
                    let read = File::open(path).and_then(|mut f| f.read_to_string(&mut content));
                    seen.insert(read.map_or_else(|e| format!("{:?}", e.kind()), |_| content));
                }
                Ok(seen.into_iter().collect::<Vec<_>>().join(","))
            }
            other => Ok(format!("no operation {other}")),
        }
    }

    fn with_own(Do { op, path, to }: &Do) -> Result<String, Error> {
        let done = |()| String::new();
        match op.as_str() {
            "read" => files::read_to_string(path),
            "write" | "create-new" | "truncate" => files::write(path, to.as_bytes()).map(done),
            "append" => files::append(path, to.as_bytes()).map(done),
            "list" => {
                let entries = files::list(path)?;
                let names: Vec<String> = entries.into_iter().map(|entry| entry.name).collect();
                Ok(names.join(" "))
            }
            "create-folder" => files::create_folder(path).map(done),
            "remove" | "remove-folder" => files::remove(path).map(done),
            "flood" => {
                let chunk = vec![7_u8; 64 << 10];
                for n in 0_u64.. {
                    if let Err(error) = files::write(&format!("{path}/{n}"), &chunk) {
                        return Ok(format!("{} {error:?}", n * (64 << 10)));
                    }
                }
                Ok("no end".to_owned())
            }
            "flood-append" => {
                let chunk = vec![7_u8; 64 << 10];
                for n in 0_u64.. {
                    if let Err(error) = files::append(path, &chunk) {
                        return Ok(format!("{} {error:?}", n * (64 << 10)));
                    }
                }
                Ok("no end".to_owned())
            }
            "many" => {
                for n in 0..1_000_000 {
                    if let Err(error) = files::write(&format!("{path}/{n}"), b"") {
                        return Ok(format!("{n} {error:?}"));
                    }
                }
                Ok("no end".to_owned())
            }
            "watch" => {
                let mut seen = std::collections::BTreeSet::new();
                for _ in 0..to.parse().unwrap_or(0) {
                    let kind = |e: Error| match e {
                        Error::Denied(_) => "Denied".to_owned(),
                        Error::NotFound(_) => "NotFound".to_owned(),
                        other => format!("{other:?}"),
                    };
                    seen.insert(files::read_to_string(path).unwrap_or_else(kind));
                }
                Ok(seen.into_iter().collect::<Vec<_>>().join(","))
            }
            other => Ok(format!("no operation {other}")),
        }
    }

    /// Does it with the standard library.
    #[tool(effect = "write")]
    fn std(args: Do) -> String {
        match with_std(&args) {
            Ok(text) => format!("ok: {text}"),
            Err(error) => format!("error: {:?}", error.kind()),
        }
    }

    /// Whether the text of a call of `append-and-wait` is in the file, in the words of a check.
    fn check_appended(Do { path, to, .. }: &Do) -> String {
        match fs::read_to_string(path) {
            Ok(text) if text.contains(to.as_str()) => "done".to_owned(),
            Ok(_) => "absent\n".to_owned(),
            Err(error) => format!("error: {:?}", error.kind()),
        }
    }

    /// Does it with the `files` import.
    #[tool(effect = "write")]
    fn own(args: Do) -> String {
        if args.op == "append-and-wait" {
            return check_appended(&args);
        }
        match with_own(&args) {
            Ok(text) => format!("ok: {text}"),
            Err(error) => format!("error: {error:?}"),
        }
    }
}
