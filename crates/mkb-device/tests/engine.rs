//! The engine over an arena: modules, launches, what is tracked, how requests fail.

use std::sync::{Arc, Mutex};

use mkb_device::account::Garbage;
use mkb_device::arena::{ARENA_BASE, Arena};
use mkb_device::engine::{Engine, Watch};
use mkb_device::protocol::{FailureClass, Launch, MemoryEvent, ModuleFormat, Reply, Request};
use mkb_device::server::ServerOptions;

const COPY: &str = r#"
.vir 1
.kernel @copy (%from: 8, %to: 8, %plus: 4) {
  .reg b32 %i %x %plus0
  .reg b64 %p %q %off
  ld.param.b64 %p, [0]
  ld.param.b64 %q, [8]
  ld.param.b32 %plus0, [16]
  mov.special %i, tid.x
  mul.wide.u32 %off, %i, 4
  add.u64 %p, %p, %off
  add.u64 %q, %q, %off
  ld.global.u32 %x, [%p]
  add.u32 %x, %x, %plus0
  st.global.u32 [%q], %x
  printf "%u\n", u32 %x
}
"#;

struct Setting {
    arena: Arena,
    watch: Arc<Mutex<Watch>>,
}

const FROM: u64 = ARENA_BASE;
const TO: u64 = ARENA_BASE + 4096;

fn setting() -> Setting {
    let arena = Arena::create(1 << 20).unwrap();
    let values: Vec<u8> = (0..32u32).flat_map(|i| (i * i).to_le_bytes()).collect();
    arena.write(FROM, &values).unwrap();
    Setting {
        arena,
        watch: Arc::default(),
    }
}

fn loaded(setting: &Setting) -> Engine<'_> {
    let watch = Arc::clone(&setting.watch);
    let mut engine = Engine::new(&setting.arena, ServerOptions::default(), watch);
    let reply = engine.answer(Request::Module {
        format: ModuleFormat::Text,
        source: COPY.as_bytes().to_vec(),
    });
    let expected = Reply::Module {
        handle: 1,
        kernels: vec![("copy".to_owned(), vec![8, 8, 4])],
    };
    assert_eq!(reply, expected);
    engine
}

fn launch(plus: u32, events: Vec<MemoryEvent>) -> Request {
    Request::Launch(Launch {
        events,
        module: 1,
        kernel: "copy".to_owned(),
        grid: [1, 1, 1],
        block: [32, 1, 1],
        cluster: [1, 1, 1],
        dynamic_shared: 0,
        arguments: vec![
            FROM.to_le_bytes().to_vec(),
            TO.to_le_bytes().to_vec(),
            plus.to_le_bytes().to_vec(),
        ],
    })
}

fn both() -> Vec<MemoryEvent> {
    let alloc = |address| MemoryEvent::Alloc { address, size: 128 };
    vec![alloc(FROM), alloc(TO)]
}

fn words(arena: &Arena, address: u64) -> Vec<u32> {
    let bytes = arena.bytes(address, 128).unwrap();
    let words = bytes.chunks_exact(4);
    words
        .map(|word| u32::from_le_bytes(word.try_into().unwrap()))
        .collect()
}

#[test]
fn a_launch_computes_in_the_arena_prints_and_is_accounted() {
    let setting = setting();
    let mut engine = loaded(&setting);
    let Reply::Launched { printed } = engine.answer(launch(5, both())) else {
        panic!("it launches")
    };
    let expected: Vec<u32> = (0..32).map(|i| i * i + 5).collect();
    assert_eq!(words(&setting.arena, TO), expected);
    let lines: Vec<String> = expected.iter().map(|word| format!("{word}\n")).collect();
    assert_eq!(printed, lines.concat());
    let watch = setting.watch.lock().unwrap();
    assert_eq!(watch.launches.len(), 1);
    assert_eq!(watch.launches[0].counts.global_stores.bytes, 128);
    assert_eq!(watch.launches[0].copies, None);
}

#[test]
fn what_a_tracked_launch_wrote_is_overwritten_and_copies_are_told() {
    let setting = setting();
    let mut engine = loaded(&setting);
    setting.watch.lock().unwrap().track = true;
    setting.watch.lock().unwrap().garbage = Some(Garbage::Nan);
    assert!(matches!(
        engine.answer(launch(0, both())),
        Reply::Launched { .. }
    ));
    assert_eq!(words(&setting.arena, TO), vec![u32::MAX; 32]);
    setting.watch.lock().unwrap().garbage = None;
    engine.answer(launch(1, vec![]));
    setting.watch.lock().unwrap().inputs = vec![(FROM, 128)];
    engine.answer(launch(0, vec![]));
    let watch = setting.watch.lock().unwrap();
    let launches = watch.launches.iter();
    let told: Vec<_> = launches.map(|l| (l.written_bytes, l.copies)).collect();
    // The last copies an input of the call, which is work that the problem asks for.
    let expected = [
        (Some(128), Some(true)),
        (Some(128), Some(false)),
        (Some(128), Some(false)),
    ];
    assert_eq!(told, expected);
}

#[test]
fn requests_that_make_no_sense_and_faults_are_told_apart() {
    let setting = setting();
    let mut engine = loaded(&setting);
    let Reply::Failed { class, message } = engine.answer(launch(0, vec![])) else {
        panic!("nothing is allocated")
    };
    assert_eq!(class, FailureClass::Fault);
    assert!(message.contains("ld.global.u32"), "{message}");
    let mut wrong = launch(0, both());
    if let Request::Launch(launch) = &mut wrong {
        launch.arguments.pop();
    }
    let Reply::Failed { class, .. } = engine.answer(wrong) else {
        panic!("an argument is missing")
    };
    assert_eq!(class, FailureClass::Bad);
    let Reply::Failed { class, message } = engine.answer(launch(0, both())) else {
        panic!("the allocations are there already")
    };
    assert_eq!(class, FailureClass::Bad);
    assert!(message.contains("overlaps"), "{message}");
}
