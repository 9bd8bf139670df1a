//! The host's side of the mailbox: serves an agent's submissions, one at a time, in order.
//!
//! The folder `/app/.submissions` is the agent's to write to, so nothing in it is believed: names
//! are matched, files are opened without following links, and nothing that decides a score is
//! read back from it.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use mkb_catalog::setting::KERNEL_BYTE_LIMIT;
use mkb_catalog::{Budget, Cancel, GradeFailure, Graded, Grader, Purpose, Verdict};
use mkb_sandbox::{Error, Folder};
use mkb_store::SubmissionEntry;

/// The mailbox, below `/app`.
const MAILBOX: &str = ".submissions";

/// The most names of the folder that are looked at: an agent may put anything there.
const MOST_NAMES: usize = 10_000;

/// A submission that has been dealt with, for whoever keeps them.
#[derive(Debug, Clone)]
pub struct Served {
    /// The line of `submissions.jsonl`.
    pub entry: SubmissionEntry,
    /// The number among the counted ones, from 1; none for one that doesn't count.
    pub number: Option<u32>,
    /// The kernel, if it could be read.
    pub kernel: Option<Vec<u8>>,
    /// What the agent was told.
    pub reply: String,
    /// The verdict, if there is one.
    pub verdict: Option<Verdict>,
    /// Further files to keep beside it.
    pub evidence: Vec<(String, Vec<u8>)>,
}

/// The host's side of one attempt's mailbox.
pub struct Mailbox {
    app: Folder,
    grader: Arc<dyn Grader>,
    budget: Budget,
    started: Instant,
    look: Duration,
    counted: u32,
    seen: BTreeSet<String>,
}

impl Mailbox {
    /// For the attempt whose `/app` is `app` and which started at `started`; looks for requests
    /// every `look`.
    pub fn new(
        app: Folder,
        grader: Arc<dyn Grader>,
        budget: Budget,
        started: Instant,
        look: Duration,
    ) -> Self {
        Mailbox {
            app,
            grader,
            budget,
            started,
            look,
            counted: 0,
            seen: BTreeSet::new(),
        }
    }

    /// Serves until `end` is cancelled; an evaluation that runs then is dropped. Gives the number
    /// of counted submissions.
    pub fn serve(mut self, end: &Cancel, mut keep: impl FnMut(Served)) -> u32 {
        while !end.is_cancelled() {
            match self.next() {
                Some(id) => {
                    let served = self.one(&id, end);
                    keep(served);
                }
                None => thread::sleep(self.look),
            }
        }
        self.counted
    }

    /// The lowest id that waits and has not been served.
    fn next(&self) -> Option<String> {
        // A folder that cannot be read has no requests in it that we could serve.
        let entries = self.app.list(MAILBOX, MOST_NAMES).ok()?;
        let ids = entries.iter().filter_map(|e| request_id(&e.name));
        ids.filter(|id| !self.seen.contains(*id))
            .min_by_key(|id| sort_key(id))
            .map(str::to_owned)
    }

    fn one(&mut self, id: &str, end: &Cancel) -> Served {
        let picked_up = Instant::now();
        self.seen.insert(id.to_owned());
        let elapsed = picked_up - self.started;
        let request = format!("{MAILBOX}/{id}.request");
        let read = self.app.read(&request, KERNEL_BYTE_LIMIT as u64);
        // What was read is what is graded; a name that stays is in `seen`.
        let _ = self.app.remove(&request);

        let mut served = Served {
            entry: SubmissionEntry {
                id: id.to_owned(),
                elapsed_sec: tenths(elapsed),
                counted: false,
                rewards: None,
                note: None,
                wall_sec: None,
                eval_sec: None,
            },
            number: None,
            kernel: None,
            reply: String::new(),
            verdict: None,
            evidence: vec![],
        };
        let (reason, report) = match read {
            Ok(Some(kernel)) => {
                served.kernel = Some(kernel);
                self.grade(&mut served, end)
            }
            Ok(None) => (Some("unreadable request".to_owned()), None),
            Err(Error::TooLarge { size, limit, .. }) => {
                let note = format!("over the size limit: {size} bytes, {limit} are allowed");
                (Some(note), None)
            }
            Err(error) => (Some(format!("unreadable request: {error}")), None),
        };
        let wall = picked_up.elapsed();
        let first = match (&reason, served.number) {
            (None, Some(number)) => format!(
                "submission {number} of {}, {}, {} s",
                self.budget.submissions,
                self.grader.device(),
                wall.as_secs()
            ),
            (reason, _) => format!("not counted: {}", reason.as_deref().unwrap_or_default()),
        };
        served.reply = format!("{first}\n{}\n", self.left());
        if let Some(report) = report {
            served.reply.push_str(&format!("\n{report}\n"));
        }
        served.entry.wall_sec = Some(tenths(wall));
        served.entry.note = reason;
        let result = format!("{MAILBOX}/{id}.result");
        // An agent that makes its own mailbox unwritable gets no reply; the rest stands.
        let _ = self.app.write(&result, served.reply.as_bytes(), 0o644);
        served
    }

    /// Grades what was read. Gives why it doesn't count, if so, and the report, if there is one.
    fn grade(&mut self, served: &mut Served, end: &Cancel) -> (Option<String>, Option<String>) {
        if self.counted >= self.budget.submissions {
            let note = format!(
                "the limit of {} submissions is reached",
                self.budget.submissions
            );
            return (Some(note), None);
        }
        let kernel = served.kernel.as_deref().unwrap_or_default();
        match self.grader.grade(kernel, Purpose::Submission, end) {
            Ok(Graded::Evaluated { verdict, evidence }) => {
                if end.is_cancelled() {
                    return (Some("cancelled at agent end".to_owned()), None);
                }
                self.counted += 1;
                served.number = Some(self.counted);
                served.entry.counted = true;
                served.entry.rewards = Some(verdict.rewards.clone());
                served.entry.eval_sec = Some((verdict.eval_sec * 10.0).round() / 10.0);
                let report = verdict.report.clone();
                served.verdict = Some(verdict);
                served.evidence = evidence;
                (None, Some(report))
            }
            Ok(Graded::Incomplete {
                operation,
                verdict,
                evidence,
            }) => {
                let report = verdict.report.clone();
                served.verdict = Some(verdict);
                served.evidence = evidence;
                (
                    Some(format!(
                        "incomplete, the device does not model: {operation}"
                    )),
                    Some(report),
                )
            }
            Ok(Graded::Refused { reason }) => (Some(reason), None),
            Err(GradeFailure::Cancelled) => (Some("cancelled at agent end".to_owned()), None),
            Err(failure) => (
                Some(format!("evaluation failed: {failure}; submit again")),
                None,
            ),
        }
    }

    fn left(&self) -> String {
        let submissions = self.budget.submissions - self.counted;
        let time = self.budget.wall().saturating_sub(self.started.elapsed());
        format!(
            "{submissions} submissions and {} minutes left",
            time.as_secs() / 60
        )
    }
}

/// The id of a request's name: digits, as `date +%s%N` prints them.
fn request_id(name: &OsStr) -> Option<&str> {
    let id = name.to_str()?.strip_suffix(".request")?;
    let fits = (1..=30).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_digit());
    fits.then_some(id)
}

/// Numeric order of ids, which may be longer than any integer type.
fn sort_key(id: &str) -> (usize, &str, usize) {
    let number = id.trim_start_matches('0');
    (number.len(), number, id.len())
}

fn tenths(time: Duration) -> f64 {
    (time.as_secs_f64() * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicU32, Ordering};

    use mkb_catalog::Rewards;

    use super::*;

    /// Answers by the kernel's first word.
    #[derive(Default)]
    struct Words {
        calls: AtomicU32,
    }

    impl Grader for Words {
        fn grade(
            &self,
            kernel: &[u8],
            purpose: Purpose,
            cancel: &Cancel,
        ) -> Result<Graded, GradeFailure> {
            self.calls.fetch_add(1, Ordering::SeqCst);
            assert_eq!(purpose, Purpose::Submission);
            let verdict = Verdict {
                rewards: Rewards::graded(true, true, Some(2.0)),
                report: format!("correct: 5/5\n{}", String::from_utf8_lossy(kernel)),
                eval_sec: 1.26,
                ..Verdict::default()
            };
            match kernel {
                b"refuse" => Ok(Graded::Refused {
                    reason: "not Python".to_owned(),
                }),
                b"fail" => Err(GradeFailure::Infrastructure("no device".to_owned())),
                b"incomplete" => Ok(Graded::Incomplete {
                    operation: "wgmma, line 3".to_owned(),
                    verdict: Verdict {
                        report: "incomplete: wgmma".to_owned(),
                        ..verdict
                    },
                    evidence: vec![],
                }),
                b"hang" => {
                    while !cancel.is_cancelled() {
                        thread::sleep(Duration::from_millis(5));
                    }
                    Err(GradeFailure::Cancelled)
                }
                _ => Ok(Graded::Evaluated {
                    verdict,
                    evidence: vec![],
                }),
            }
        }

        fn device(&self) -> String {
            "B200 (virtual)".to_owned()
        }
    }

    struct Scene {
        folder: tempfile::TempDir,
        grader: Arc<Words>,
        budget: Budget,
    }

    impl Scene {
        fn new() -> Self {
            let folder = tempfile::tempdir().expect("temporary folder");
            fs::create_dir(folder.path().join(MAILBOX)).expect("mailbox");
            let budget = Budget {
                wall_sec: 600,
                submissions: 2,
            };
            Scene {
                folder,
                grader: Arc::default(),
                budget,
            }
        }

        fn request(&self, id: &str, kernel: &[u8]) {
            let path = self
                .folder
                .path()
                .join(MAILBOX)
                .join(format!("{id}.request"));
            fs::write(path, kernel).expect("request");
        }

        fn reply(&self, id: &str) -> Option<String> {
            let path = self
                .folder
                .path()
                .join(MAILBOX)
                .join(format!("{id}.result"));
            fs::read_to_string(path).ok()
        }

        /// Serves until `count` submissions have been dealt with, or the scene stays still.
        fn serve(&self, count: usize) -> Vec<Served> {
            let mailbox = Mailbox::new(
                Folder::open(self.folder.path(), None).expect("folder"),
                self.grader.clone(),
                self.budget,
                Instant::now(),
                Duration::from_millis(5),
            );
            let end = Cancel::new();
            let kept = Mutex::new(Vec::new());
            thread::scope(|scope| {
                scope.spawn(|| {
                    mailbox.serve(&end, |served| kept.lock().expect("kept").push(served));
                });
                let deadline = Instant::now() + Duration::from_millis(600);
                while kept.lock().expect("kept").len() < count && Instant::now() < deadline {
                    thread::sleep(Duration::from_millis(5));
                }
                end.cancel();
            });
            kept.into_inner().expect("kept")
        }
    }

    #[test]
    fn submissions_are_served_in_the_order_of_their_numbers() {
        let scene = Scene::new();
        scene.request("100", b"b");
        scene.request("99", b"a");
        let served = scene.serve(2);
        let ids: Vec<_> = served.iter().map(|s| s.entry.id.as_str()).collect();
        assert_eq!(ids, ["99", "100"]);
        assert_eq!(served[1].number, Some(2));
        assert_eq!(served[0].kernel.as_deref(), Some(&b"a"[..]));
        assert!(served[0].entry.counted);
        assert_eq!(served[0].entry.eval_sec, Some(1.3));
    }

    #[test]
    fn a_reply_has_its_number_device_and_time_then_what_is_left_then_the_report() {
        let scene = Scene::new();
        scene.request("1", b"kernel");
        scene.serve(1);
        assert_eq!(
            scene.reply("1").as_deref(),
            Some(
                "submission 1 of 2, B200 (virtual), 0 s\n1 submissions and 9 minutes left\n\n\
                 correct: 5/5\nkernel\n"
            )
        );
    }

    #[test]
    fn past_the_limit_a_submission_is_refused_and_not_graded() {
        let scene = Scene::new();
        for id in ["1", "2", "3"] {
            scene.request(id, b"kernel");
        }
        let served = scene.serve(3);
        assert!(!served[2].entry.counted);
        assert_eq!(served[2].entry.rewards, None);
        let note = served[2].entry.note.as_deref().expect("a note");
        assert!(note.contains("limit of 2"), "{note}");
        assert_eq!(scene.grader.calls.load(Ordering::SeqCst), 2);
        let reply = scene.reply("3").expect("a reply");
        assert_eq!(
            reply.lines().nth(1),
            Some("0 submissions and 9 minutes left")
        );
    }

    #[test]
    fn what_never_enters_evaluation_is_explained_and_not_counted() {
        let scene = Scene::new();
        scene.request("1", b"refuse");
        scene.request("2", b"fail");
        scene.request("3", b"incomplete");
        scene.request("4", &vec![b'x'; KERNEL_BYTE_LIMIT + 1]);
        fs::create_dir(scene.folder.path().join(MAILBOX).join("5.request")).expect("folder");
        symlink(
            "/etc/passwd",
            scene.folder.path().join(MAILBOX).join("6.request"),
        )
        .expect("link");
        scene.request("7", b"kernel");
        let served = scene.serve(7);
        let notes: Vec<_> = served
            .iter()
            .map(|s| s.entry.note.clone().unwrap_or_default())
            .collect();
        let words = [
            "not Python",
            "no device",
            "wgmma, line 3",
            "size limit",
            "unreadable",
        ];
        for (note, word) in notes.iter().zip(words) {
            assert!(note.contains(word), "{note}: {word}");
        }
        assert!(notes[5].contains("unreadable"), "{}", notes[5]);
        assert!(
            served[..6]
                .iter()
                .all(|s| !s.entry.counted && s.entry.rewards.is_none())
        );
        assert_eq!(served[6].number, Some(1));
        let incomplete = scene.reply("3").expect("a reply");
        assert!(
            incomplete.ends_with("\n\nincomplete: wgmma\n"),
            "{incomplete}"
        );
    }

    #[test]
    fn an_evaluation_that_runs_at_the_end_is_dropped() {
        let scene = Scene::new();
        scene.request("1", b"hang");
        let served = scene.serve(1);
        assert_eq!(served.len(), 1);
        assert!(!served[0].entry.counted);
        assert_eq!(
            served[0].entry.note.as_deref(),
            Some("cancelled at agent end")
        );
    }

    #[test]
    fn other_names_are_let_be_and_a_served_id_is_not_served_again() {
        let scene = Scene::new();
        let mailbox = scene.folder.path().join(MAILBOX);
        for name in [
            "1.tmp",
            "x.request",
            "1 .request",
            ".request",
            "2.result",
            "-3.request",
        ] {
            fs::write(mailbox.join(name), "kernel").expect("file");
        }
        scene.request(&"9".repeat(31), b"kernel");
        assert!(scene.serve(1).is_empty());
    }

    #[test]
    fn a_mailbox_that_is_no_folder_stops_nothing() {
        let scene = Scene::new();
        fs::remove_dir(scene.folder.path().join(MAILBOX)).expect("removed");
        assert!(scene.serve(1).is_empty());
        symlink("/etc", scene.folder.path().join(MAILBOX)).expect("link");
        assert!(scene.serve(1).is_empty());
        fs::remove_file(scene.folder.path().join(MAILBOX)).expect("removed");
        fs::write(scene.folder.path().join(MAILBOX), "file").expect("file");
        assert!(scene.serve(1).is_empty());
    }

    #[test]
    fn a_reply_does_not_follow_a_link_that_waits_for_it() {
        let scene = Scene::new();
        let target = scene.folder.path().join("target");
        fs::write(&target, "untouched").expect("file");
        let mailbox = scene.folder.path().join(MAILBOX);
        symlink(&target, mailbox.join("1.result")).expect("link");
        symlink(&target, mailbox.join("1.result.tmp")).expect("link");
        scene.request("1", b"kernel");
        assert_eq!(scene.serve(1).len(), 1);
        assert_eq!(fs::read_to_string(&target).expect("read"), "untouched");
        assert!(
            scene
                .reply("1")
                .expect("a reply")
                .starts_with("submission 1 of 2")
        );
    }
}
