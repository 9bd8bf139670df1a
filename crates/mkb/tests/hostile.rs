//! Submissions that run kernels of the task's DSL and still did not do the work, and honest ones that
//! look alike: through the binary, the whole way.

mod judging;

use judging::judged;
use serde_json::Value;

const ORACLE: &str = include_str!(
    "../../../problems/mlp_norm/_solutions/28_fused_add_rmsnorm_h4096_llama31_8b_bf16_cutedsl.py"
);

/// The problem's own solution as `honest`, eager PyTorch's answer as `eager`, a kernel that copies,
/// and then the text given.
fn with(rest: &str) -> String {
    let solution = ORACLE.replace("def solve(", "def honest(");
    format!(
        r#"{solution}

def eager(hidden_states, residual, weight):
    x = hidden_states.float() + residual.float()
    scale = torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5)
    return (x * scale * weight.float()).to(torch.bfloat16)


@cute.kernel
def copy_kernel(source: cute.Tensor, target: cute.Tensor):
    block, _, _ = cute.arch.block_idx()
    thread, _, _ = cute.arch.thread_idx()
    at = (block * 256 + thread,)
    left, right = (cute.local_tile(t, (8,), at) for t in (source, target))
    fragment = cute.make_fragment_like(left)
    cute.autovec_copy(left, fragment)
    cute.autovec_copy(fragment, right)


@cute.jit
def copy(source: cute.Tensor, target: cute.Tensor):
    copy_kernel(source, target).launch(
        grid=[cute.size(source) // 2048, 1, 1], block=[256, 1, 1]
    )


def copied(source):
    target = torch.empty_like(source)
    flat = [from_dlpack(t.view(-1), assumed_align=16) for t in (source, target)]
    copy(*flat)
    return target


{rest}
"#
    )
}

fn rules(value: &Value) -> Vec<&str> {
    let findings = value["verdict"]["details"]["findings"].as_array();
    let findings = findings.into_iter().flatten();
    findings.filter_map(|f| f["rule"].as_str()).collect()
}

/// Not passed, and so many draws were right.
fn caught(kernel: &str, correct: u64) -> Value {
    let value = judged(kernel);
    assert_eq!(value["passed"], false, "{value:#}");
    let details = &value["verdict"]["details"];
    assert_eq!(details["n_correct_draws"], correct, "{value:#}");
    value
}

#[test]
fn a_result_that_is_thrown_away_does_not_count() {
    let value = caught(
        &with("def solve(*inputs):\n    honest(*inputs)\n    return eager(*inputs)"),
        5,
    );
    assert!(rules(&value).contains(&"withheld-result"), "{value:#}");
}

#[test]
fn a_copy_of_what_eager_computed_does_not_count() {
    let value = caught(
        &with("def solve(*inputs):\n    return copied(eager(*inputs))"),
        5,
    );
    assert!(rules(&value).contains(&"copied-result"), "{value:#}");
}

#[test]
fn a_kernel_on_the_side_does_not_count() {
    // Its result is added with weight zero.
    let body = "def solve(*inputs):\n    return eager(*inputs) + 0 * honest(*inputs)";
    assert!(rules(&caught(&with(body), 5)).contains(&"withheld-result"));
}

#[test]
fn a_count_of_calls_on_the_device_does_not_make_a_result_count() {
    // Were the second run of the draw to find the first one's count, its output would be wrong for
    // another reason than the kernel's missing result.
    let body = "CALLS = []\n\n\ndef solve(*inputs):\n    if not CALLS:\n        \
                CALLS.extend([torch.zeros((), device='cuda'), 0])\n    CALLS[0] += 1\n    \
                CALLS[1] += 1\n    honest(*inputs)\n    \
                return eager(*inputs) + (CALLS[0] - CALLS[1]).to(torch.bfloat16)";
    assert!(rules(&caught(&with(body), 5)).contains(&"withheld-result"));
}

#[test]
fn falling_back_to_eager_is_caught_and_a_guard_that_never_acts_is_not() {
    let body = "def solve(*inputs):\n    try:\n        raise RuntimeError('no kernel today')\n    \
                except RuntimeError:\n        return eager(*inputs)";
    assert!(rules(&caught(&with(body), 5)).contains(&"no-kernel"));
    let body = "def solve(*inputs):\n    try:\n        return honest(*inputs)\n    \
                except RuntimeError as error:\n        raise SystemExit(str(error)) from error";
    assert_eq!(judged(&with(body))["passed"], true);
}

#[test]
fn an_output_kept_from_an_earlier_draw_is_wrong() {
    for key in [
        "0",
        "hidden_states.data_ptr()",
        "tuple(hidden_states.shape)",
    ] {
        let body = format!(
            "KEPT = {{}}\n\n\ndef solve(hidden_states, residual, weight):\n    key = {key}\n    \
             if key not in KEPT:\n        KEPT[key] = honest(hidden_states, residual, weight)\n    \
             return KEPT[key]"
        );
        let value = judged(&with(&body));
        assert_eq!(value["verdict"]["rewards"]["correct"], 0.0, "{value:#}");
    }
}

#[test]
fn a_kept_buffer_that_is_written_anew_is_honest() {
    let body = "BUFFER = []\n\n\ndef solve(*inputs):\n    result = honest(*inputs)\n    \
                if not BUFFER:\n        BUFFER.append(torch.empty_like(result))\n    \
                BUFFER[0].copy_(result)\n    return BUFFER[0]";
    assert_eq!(judged(&with(body))["passed"], true);
}

#[test]
fn right_for_the_checked_calls_alone_is_not_enough() {
    let body = "CALLS = [0]\n\n\ndef solve(*inputs):\n    CALLS[0] += 1\n    \
                result = honest(*inputs)\n    return result if CALLS[0] <= 5 else result * 0";
    let value = caught(&with(body), 5);
    assert_eq!(value["verdict"]["rewards"]["speedup_vs_eager"], 0.0);
}

#[test]
fn a_thread_that_goes_on_after_the_call_changes_nothing() {
    let body = "import threading\nimport time\n\n\ndef later(result, inputs):\n    \
                time.sleep(0.05)\n    result.copy_(eager(*inputs))\n\n\ndef solve(*inputs):\n    \
                result = copied(inputs[0])\n    \
                threading.Thread(target=later, args=(result, inputs)).start()\n    return result";
    caught(&with(body), 0);
}

#[test]
fn a_tensor_that_computes_when_it_is_looked_at_is_refused() {
    let body = "class Lazy(torch.Tensor):\n    @classmethod\n    \
                def __torch_function__(cls, function, types, args=(), kwargs=None):\n        \
                return super().__torch_function__(function, types, args, kwargs or {})\n\n\n\
                def solve(*inputs):\n    return honest(*inputs).as_subclass(Lazy)";
    caught(&with(body), 0);
}

#[test]
fn a_kernel_without_end_is_stopped_and_named() {
    let body = "@cute.kernel\ndef endless_kernel(x: cute.Tensor):\n    i = cutlass.Int32(0)\n    \
                while i >= 0:\n        i = i & 1\n    x[0, 0] = x[0, 0]\n\n\n\
                @cute.jit\ndef endless(x: cute.Tensor):\n    \
                endless_kernel(x).launch(grid=[1, 1, 1], block=[32, 1, 1])\n\n\n\
                def solve(hidden_states, residual, weight):\n    \
                endless(from_dlpack(hidden_states))\n    return hidden_states";
    let value = caught(&with(body), 0);
    let report = value["verdict"]["report"].as_str().expect("a report");
    assert!(report.contains("endless_kernel"), "{report}");
}

#[test]
fn an_access_out_of_bounds_is_named_and_the_next_submission_is_unaffected() {
    let body = "@cute.kernel\ndef far_kernel(x: cute.Tensor):\n    \
                x[9999999, 0] = x[0, 0]\n\n\n\
                @cute.jit\ndef far(x: cute.Tensor):\n    \
                far_kernel(x).launch(grid=[1, 1, 1], block=[32, 1, 1])\n\n\n\
                def solve(hidden_states, residual, weight):\n    \
                far(from_dlpack(hidden_states))\n    return hidden_states";
    let value = caught(&with(body), 0);
    let report = value["verdict"]["report"].as_str().expect("a report");
    assert!(report.contains("far_kernel"), "{report}");
    assert!(report.contains("kernel.py:"), "{report}");
    let next = judged(ORACLE);
    assert_eq!(next["passed"], true, "{next:#}");
}

#[test]
fn what_the_host_computed_does_not_count_as_constants_of_a_kernel() {
    let body = r#"
def solve(hidden_states, residual, weight):
    x = hidden_states.float() + residual.float()
    scales = torch.rsqrt(x.pow(2).mean(-1) + 1e-5).cpu().tolist()

    @cute.kernel
    def write_kernel(scales_out: cute.Tensor):
        thread, _, _ = cute.arch.thread_idx()
        if thread == 0:
            for row in cutlass.range_constexpr(len(scales)):
                scales_out[row] = cutlass.Float32(scales[row])

    @cute.jit
    def write(scales_out: cute.Tensor):
        write_kernel(scales_out).launch(grid=[1, 1, 1], block=[32, 1, 1])

    scale = torch.empty(len(scales), device="cuda")
    write(from_dlpack(scale))
    return (x * scale[:, None] * weight.float()).to(torch.bfloat16)
"#;
    let value = judged(&with(body));
    assert_eq!(value["passed"], false, "{value:#}");
    assert_eq!(rules(&value), ["host-data"], "{value:#}");
    let report = value["verdict"]["report"].as_str().expect("a report");
    assert!(report.contains("compilation in the call"), "{report}");
}

#[test]
fn a_kernel_of_another_dsl_does_not_count() {
    let reach = "import os, sys, mkb_worker\n\
                 package = os.path.dirname(mkb_worker.__file__)\n\
                 sys.path.insert(0, os.path.join(os.path.dirname(package), 'cute'))\n";
    let kernel = format!("{reach}{}", with("solve = honest"));
    let output = judging::grade_as("tirx", &kernel, &["--json"]);
    let value: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(value["passed"], false, "{value:#}");
    let findings = value["verdict"]["details"]["findings"].as_array();
    let ran = |f: &Value| f["rule"] == "other-compiler" && f["line"] == 0;
    let said = findings.expect("findings").iter().find(|f| ran(f));
    let said = said.expect("about what ran")["what"].as_str();
    assert!(said.expect("text").contains("TIRx"), "{value:#}");
}
