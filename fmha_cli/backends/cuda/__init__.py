"""Code that all CUDA backends share. It drives NVIDIA devices through cuda-python. This is the guide to a further backend.

A backend for another project's CUDA kernels belongs in this repository, next to `flash_attn`, `mem_efficient` and
`cudnn_oss`. It derives one class from `CubinUpstream`, creates one object of it, and registers `CubinBackend(UPSTREAM)`.
`backends/gpu` and `backends/cuda` provide the rest: the loop over candidates, calls and addresses, the arena's mirror,
sessions, the shop (NVRTC, ptxas, nvcc, prebuilt archives), the check of exported tables, TMA descriptors, inspection
and dry runs.

There are two forms. In both, a method of the class may be a function of a module: `emit = own("fmha_cli.codegen.NAME.emit")`,
`after_download = own(".conversions")` (`domain/own.py`). The module is imported on first use of the function, so listing
kernels loads neither numpy nor the rules about problems.

- `SmallUpstream` (`cuda/small.py`) is for a project that names each of its kernels, takes the first that fits, and serves a problem in one
  launch. Its lists, rules and choice are a `Few` (`gpu/few.py`). `mem_efficient` (207 kernels, both passes) and `cudnn_oss` (six kernels) are
  the examples.
- `CubinUpstream` itself is for a project whose launch code picks template arguments, or which needs several stages. `flash_attn` is the example, and
  `flash_attn_3` one whose block holds nested structs and descriptors and whose plan begins with a kernel that prepares.

Kernels for AMD devices: `aiter_asm` derives from `CodeObjectUpstream` (`hip/upstream.py`) and registers a `CodeObjectBackend`; its kernels are
finished code objects, and everything else is as here. `ck_tile` has rules, choice, calls and the host's conversions from `backends/gpu` as these
do. Its kernels are launched by upstream's own C++ code, in a host library that is built with each, so it derives its session from `HipSession`.

### What its author has to learn

The price of a backend is its own files and these 16 concepts. A `Few` and a `SmallUpstream` answer for the 3 in italics.

| concept | what it is | modules |
|---|---|---|
| project | `Upstream`, the project's answers, of which `own` takes some from modules, and `CubinUpstream`, which adds the compiled text; `CubinBackend`, the backend that asks them | `gpu/upstream` `gpu/upstream_backend` `cuda/upstream` `cuda/small` `cuda/cubin_backend` `domain/own` |
| situation | what the host code derives from a problem on a device: multiprocessors, splits, single precision | `cuda/units` `gpu/devices` `gpu/arithmetic` `gpu/index` |
| sequences | where sequences start in packed tensors and caches, and the bounds of their masks | `cuda/sequences` `cuda/mask_bounds` |
| conditions | rules about a problem: a row of data, and a check that finds values for its texts (`refuse_if`) | `gpu/conditions` `gpu/rule_rows` |
| list | which kernels exist, and the nearest one to a kernel that does not | `gpu/few` `gpu/listed` `cuda/capability` |
| *index* | which kernels fit, each check asked once for all that look alike | `gpu/choosing` `gpu/index` |
| *rank* | the order of those that fit, with a note that says why | `gpu/known_bad` |
| *plan* | the stages around a main kernel, and what a plan says about each launch | `cuda/scratch` |
| scratch | tensors that the core allocates, guards and poisons | `cuda/scratch` |
| call | addresses and strides of the tensors of a pass | `gpu/call` |
| block | the parameters as a dataclass: types, nested structs (`__`), alignment, descriptors | `codegen/struct` |
| exports | the tables in a cubin that say what was compiled, and what the host expects | `codegen/cuda` `cuda/tables` |
| launch | grid, block, shared memory, cluster, dependence on the launch before it, workspaces to clear | `cuda/launch` `gpu/launching` |
| descriptors | TMA's view of a tensor | `cuda/tensor_maps` |
| arrays | small arrays that kernels read besides the tensors | `gpu/auxiliary` |
| conversions | what the host changes before the upload and after the download, on views of the arena | `cuda/copies` `cuda/staging` `gpu/arena_views` `gpu/host_side` |

`cudnn_oss` imports 27 names of these modules, `mem_efficient` 32, `flash_attn_3` 51, and `flash_attn` 59 (`tests/backends/cuda/test_price.py`).

### Files

`codegen/NAME/` and `backends/NAME/` are packages; each has an `__init__.py`. Of a `SmallUpstream` with many kernels:

| file | content |
|---|---|
| `arch_specs/_sources.json` | the pinned source. Kernels that include no other project's headers have none, and `Upstream.source` stays unset |
| `arch_specs/_NAME.json` | every kernel: upstream's name and constants, in the order in which upstream tries them |
| `arch_specs/_NAME_files.json` | the headers of that source, each with its digest, if the user may name an own tree (`Upstream.home_option`) |
| `arch_specs/_NAME_params.json` | the fields of a long parameter block as data, for `make_typed_rows` |
| `arch_specs/_NAME_rules.json` | the rows of the rules: id, text, help, source, the fields of a kernel that the check reads, and the texts of the refusals |
| `arch_specs/_nvidia.json` | the backend's name under `backends` of the groups `cc-X.Y` that have kernels; that covers the suffixed architectures. `arch_specs/sm_*.json` is for one architecture alone |
| `arch_specs/_preference.json` | its place in the order of `--backend auto`, with the source; a row of `confirmed` once a record of `gpu_check.py` bears it out (`tools/confirmed.py` prints it) |
| `arch_specs/_profiles.json` | a profile for each project that generates the kernels, if there are several |
| `domain/rules.py` | the range of the backend's rule ids, in the docstring |
| `codegen/NAME/algorithm.py` | the free choices of a kernel, a dataclass derived from `Algorithm` |
| `codegen/NAME/traits.py` | the constants of a kernel from `arch_specs/`: threads, shared memory, template-id |
| `codegen/NAME/params.py` | the parameter blocks, dataclasses of `codegen/struct.py` types. Their fields may be data (`make_typed_rows`) |
| `codegen/NAME/emit.py`, `src/` | the text of one cubin with the tables that `cuda/tables.py` describes; its own headers, or replacements. `codegen/cuda/` has what all texts share: the tables (`exports_text`), and the headers of the standard library that NVRTC lacks |
| `backends/NAME/upstream.py` | the class and its object. `fmha inspect` shows the memory of a compile, for `compile_bytes` |
| `backends/NAME/catalogue.py` | the kernels of an architecture |
| `backends/NAME/situation.py` | what the project's host code derives from a problem; it has `problem` and `device` |
| `backends/NAME/problem_rules.py` | the checks of the rules about problems (`gpu/rule_rows.py` `conditions`); one function may yield what several find (`together`) |
| `backends/NAME/decide.py` | the `Few`: kernels, rules, and the rank of what fits. It asks every rule that applies, including the core's; `discord`: what a backward kernel needs of the forward kernel of one plan (`domain/passes.py`) |
| `backends/NAME/scratch.py` | the scratch tensors (`cuda/scratch.py`); a `Staging` (`cuda/staging.py`) where kernels cannot take the tensors as they are |
| `backends/NAME/arguments.py` | the parameter block and the launch, what a plan says about them, and what the cubin must export for them (`cuda/tables.py` `Expected`) |
| `backends/NAME/conversions.py` | what the host changes before the upload and after the download, if anything |
| `backends/NAME/__init__.py` | the hook that registers `CubinBackend(UPSTREAM)` |
| `backends/builtins.py` | the row of the built-in backend, with its options |
| `oracle/dropout.py`, `domain/features.py` | the dropout stream, if it is new. Kernels without dropout name any stream |
| `docs/explanation/cuda.md` | its row in the table of backends; its page is `docs/explanation/backends/NAME.md` |

The smallest `SmallUpstream` needs less:

| file | content |
|---|---|
| `arch_specs/_NAME.json`, `arch_specs/_NAME_rules.json` | the facts of each kernel; the rules |
| `arch_specs/sm_90a.json` | which kernels the architecture has, under `backends` |
| `codegen/NAME/facts.py` | the facts, and every kernel of an architecture |
| `codegen/NAME/params.py` | the parameter blocks |
| `codegen/NAME/emit.py` | the text, and `derive_files`: files that are made from the source |
| `backends/NAME/rules.py` | the checks, and the `Few` |
| `backends/NAME/launching.py` | launch, scratch tensors, parameters, conversions |
| `backends/NAME/upstream.py` | the class and its object |
| `backends/NAME/__init__.py` | the hook |

A `CubinUpstream` answers for itself what a `Few` and a `SmallUpstream` answer:

| file | content |
|---|---|
| `backends/NAME/kernel_rules.py` | which kernels exist: `gpu/listed.py` `listed_rules` with the catalogue, for `refusals` |
| `backends/NAME/decide.py` | the index of each family (`gpu/choosing.py` `indexes`) and the rank of what fits, for `gpu/index.py` `decisions` |
| `backends/NAME/plan.py` | stages and workspaces |
| `backends/NAME/arguments.py`, `backends/NAME/launches.py` | the parameter block of each stage, and its launch |

### In which order

1. Compile one kernel by hand with NVRTC, with upstream's flags, until it needs no patch of upstream's files. What NVRTC lacks becomes a
   shim. If this fails, stop here.
2. Pin the source, write `emit`, `params` and `expect_exports`, and let `fmha run --dry-run` compare the tables. From here on every wrong offset is
   an error.
3. List the kernels, and compare the list with what upstream's own generator writes.
4. Compile upstream's host code for the host, with its launch replaced by a record of it. It answers which kernel is launched, with which
   grid and which parameters.
5. Write the choice, the plan and the arguments against that program. A difference is a fault or becomes a rule.
6. Write a numpy model of the kernels from the device code, and run the oracle's checks on it. It finds what host code cannot show: rows that
   no block writes, reads past a row, hazards. Each hazard becomes a rule or a conversion, with a planted fault.
7. Add the session's tests, a build matrix, and the cases of `gpu_check.py`.

### Tests to copy

| what is tested | copy |
|---|---|
| the text: pure, equal to reviewed texts in `tests/golden/` | `tests/support/golden/mem_efficient.py`, `tests/codegen/mem_efficient/test_emit.py`; `tests/support/golden/units.py` has the checks |
| the blocks are upstream's structs | `tests/codegen/mem_efficient/test_params.py` |
| the kernels are what upstream's generator lists | `tests/backends/mem_efficient/test_catalogue.py` |
| the choice, against a second way of writing it | `tests/backends/mem_efficient/test_select.py` |
| each rule refuses, and passes the nearest neighbour | `tests/backends/mem_efficient/test_problem_rules.py`, `tests/backends/cudnn_oss/test_rules.py` |
| upstream's host code, compiled and asked | `tests/support/referees/xformers_host/`, `tests/support/referees/cudnn_oss/engine.py` |
| choice, launches and parameters equal its answers | `tests/backends/mem_efficient/test_choice.py`, `tests/backends/cudnn_oss/test_engine.py` |
| the kernels themselves on the PTX emulator: results, and a fault in every parameter | `plugins/fmha-nvptx-emu/fmha_nvptx_emu_tests/test_cudnn_numbers.py` |
| where NVRTC takes minutes, a model of the kernels instead | `tests/support/models/mem_efficient/kernels.py`, `tests/support/models/modelled_run.py`; `tests/backends/mem_efficient/test_numerics.py`, `tests/backends/mem_efficient/test_param_faults.py` |
| hazards of upstream, planted | `tests/backends/mem_efficient/test_hazards.py` |
| the session on the stand-in driver | `tests/support/children/cudnn_oss/session.py` |
| NVRTC compiles, and a cubin that differs is refused | `tests/backends/mem_efficient/test_building.py`, `tests/backends/cudnn_oss/test_nvrtc.py` |
| every kernel, with `inspect` next to NVIDIA's tools | `tests/checks/cuda_builds.py`, `tests/backends/mem_efficient/test_matrix.py`; `tests/support/builds/cuda_matrix.py` has the checks |
| the check on a GPU | `benchmarks/nvidia_check/efficient_cases.py`, with a `Subject` in `benchmarks/nvidia_check/subjects.py` |

Two shared tests take its name: `OWNERS` in `tests/domain/test_own.py`, and `UPSTREAMS` in
`tests/backends/gpu/test_names_no_backend.py`, since no shared module may name a project.

### What costs time

- NVRTC has no standard library, refuses functions that are marked for the host alone, and refuses arrays without elements.
  `<fmha_std.h>` of the shared shims has CCCL's library under its usual name; `codegen/mem_efficient/src/common/fmha_memeff.h` shows what helps
  against the rest. `exports_text` needs a struct `Params` and a macro `FMHA_EXPORT`. If NVRTC refuses the text and nvcc is installed, the
  build falls back to nvcc with a notice, so read the notices.
- `gpu/index.py` asks a check once for all kernels that look the same to it. A check that reads more of a kernel than `reads` says gives
  wrong answers.
- Without a GPU, the session of a further backend runs on the driver of `plugins/fmha-nvptx-emu`, which can record launches
  (`fmha_nvptx_emu.recording`), with a model of the kernels in numpy: `tests/backends/conftest.py` and `tests/support/models/modelled_session.py`.
"""
