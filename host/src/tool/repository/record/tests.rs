//! Tests of the records of running commands: which files of an interrupted command are checked, and
//! which are left alone.

use super::*;

/// Temporary directory with a workspace that is a git repository, and with a folder of records.
struct Fixture {
    root: tempfile::TempDir,
}

const SETTINGS: &str = "[core]\n\tbare = false\n";

impl Fixture {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let git = root.path().join("work/.git");
        for folder in ["objects", "refs", "hooks"] {
            fs::create_dir_all(git.join(folder)).unwrap();
        }
        fs::write(git.join("HEAD"), "ref: refs/heads/main\n").unwrap();
        fs::write(git.join("config"), SETTINGS).unwrap();
        Self { root }
    }

    fn records_folder(&self) -> PathBuf {
        self.root.path().join("records")
    }

    fn git_path(&self, name: &str) -> PathBuf {
        self.root.path().join("work/.git").join(name)
    }

    fn start_record(&self, deadline: Duration) -> RunningCommandRecordFile {
        let before =
            GitControlFilesBeforeCommand::scan_before_command(&[self.root.path().join("work")]);
        RunningCommandRecordFile::create(&self.records_folder(), &before, deadline).unwrap()
    }

    fn n_records(&self) -> usize {
        fs::read_dir(self.records_folder()).unwrap().count()
    }
}

/// Makes git run a program at the next command.
fn write_program_setting(fixture: &Fixture) {
    fs::write(
        fixture.git_path("config"),
        "[core]\n\tfsmonitor = touch ran\n",
    )
    .unwrap();
}

#[test]
fn files_of_an_interrupted_command_are_renamed_and_settings_are_restored() {
    let fixture = Fixture::new();
    let record = fixture.start_record(Duration::from_secs(10));
    write_program_setting(&fixture);
    assert!(
        disable_git_files_of_interrupted_commands(&fixture.records_folder()).is_empty(),
        "it still runs"
    );
    assert_eq!(fixture.n_records(), 1);
    drop(record);
    let lines = disable_git_files_of_interrupted_commands(&fixture.records_folder());
    let [line] = &lines[..] else {
        panic!("{lines:?}")
    };
    assert!(line.contains("`.git/config` may run a program"), "{line}");
    assert_eq!(
        fs::read_to_string(fixture.git_path("config")).unwrap(),
        SETTINGS
    );
    assert!(fixture.git_path("config.refused").exists());
    assert_eq!(fixture.n_records(), 0);
    assert!(disable_git_files_of_interrupted_commands(&fixture.records_folder()).is_empty());
}

#[test]
fn a_folder_replaced_by_a_symlink_is_not_checked() {
    let fixture = Fixture::new();
    drop(fixture.start_record(Duration::from_secs(10)));
    let (work, own) = (
        fixture.root.path().join("work"),
        fixture.root.path().join("own"),
    );
    fs::rename(&work, &own).unwrap();
    std::os::unix::fs::symlink(&own, &work).unwrap();
    write_program_setting(&fixture);
    assert!(disable_git_files_of_interrupted_commands(&fixture.records_folder()).is_empty());
    assert!(!fixture.git_path("config.refused").exists());
    assert_eq!(fixture.n_records(), 0);
}

#[test]
fn an_unreadable_folder_of_records_is_reported() {
    let fixture = Fixture::new();
    assert!(
        disable_git_files_of_interrupted_commands(&fixture.records_folder()).is_empty(),
        "none is there yet"
    );
    fs::write(fixture.records_folder(), "").unwrap();
    let lines = disable_git_files_of_interrupted_commands(&fixture.records_folder());
    assert!(
        lines.len() == 1 && lines[0].contains("cannot be read"),
        "{lines:?}"
    );
}

#[test]
fn a_command_whose_files_were_checked_leaves_no_record() {
    let fixture = Fixture::new();
    fixture.start_record(Duration::from_secs(10)).remove();
    assert_eq!(fixture.n_records(), 0);
}

#[test]
fn a_file_that_changed_after_the_command_ended_is_kept_and_reported() {
    let fixture = Fixture::new();
    drop(fixture.start_record(Duration::from_secs(10)));
    write_program_setting(&fixture);
    let record = fs::read_dir(fixture.records_folder())
        .unwrap()
        .next()
        .unwrap()
        .unwrap();
    let text = fs::read_to_string(record.path()).unwrap();
    let mut value: serde_json::Value = serde_json::from_str(&text).unwrap();
    value["last"] = (clock::current_time().as_second() - 1).into();
    fs::write(record.path(), value.to_string()).unwrap();
    let lines = disable_git_files_of_interrupted_commands(&fixture.records_folder());
    assert!(lines[0].contains("so it was kept: review it"), "{lines:?}");
    assert!(!fixture.git_path("config.refused").exists());
    assert_eq!(fixture.n_records(), 0);
}

#[test]
fn damaged_records_are_reported_once_and_unfinished_records_never() {
    let fixture = Fixture::new();
    drop(fixture.start_record(Duration::from_secs(10)));
    let folder = fixture.records_folder();
    let record = fs::read_dir(&folder)
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    let whole = fs::read(&record).unwrap();
    let damaged = [
        Vec::new(),
        whole[..whole.len() / 2].to_vec(),
        b"{\"version\": 2, \"last\": 0, \"folders\": [], \"known\": []}".to_vec(),
        b"{\"version\": 1, \"last\": 0, \"folders\": [\"?\"], \"known\": []}".to_vec(),
    ];
    for bytes in damaged {
        fs::write(&record, bytes).unwrap();
        let lines = disable_git_files_of_interrupted_commands(&folder);
        assert!(
            lines.len() == 1 && lines[0].contains("cannot be read"),
            "{lines:?}"
        );
        assert!(disable_git_files_of_interrupted_commands(&folder).is_empty());
    }
    let new = folder.join("1.new");
    fs::write(&new, "").unwrap();
    assert!(disable_git_files_of_interrupted_commands(&folder).is_empty() && new.exists());
    let old = SystemTime::now() - 2 * MAX_UNFINISHED_COMMAND_RECORD_AGE;
    File::options()
        .write(true)
        .open(&new)
        .unwrap()
        .set_modified(old)
        .unwrap();
    assert!(disable_git_files_of_interrupted_commands(&folder).is_empty() && !new.exists());
}

#[test]
fn paths_that_are_not_utf_8_are_restored_from_a_record() {
    let path = PathBuf::from(OsString::from_vec(vec![b'/', 0xff, b'a']));
    assert_eq!(RecordedPath::from(&*path).decode(), Some(path));
}
