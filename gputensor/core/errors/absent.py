"""The table of PyTorch's names that gputensor leaves out, with the reason.

Public modules, Tensor and the modules of as_torch use these sentences in errors for missing names.
A name of PyTorch that is neither in gputensor nor in this table is not implemented yet.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from functools import cache
from typing import NamedTuple


class _Family(NamedTuple):
    """A group of PyTorch's names that are left out for one reason. why: the reason. names: patterns
    of names, by module. modules: modules that are left out completely, with their submodules."""

    why: str
    names: dict[str, str]
    modules: str = ""


_FAMILIES = (
    _Family(
        "there are no sparse tensors; use dense ones, with index_select, scatter_add or a mask",
        {
            "torch": "sparse_* hsmm hspmm dsmm smm sspaddmm saddmm resize_as_sparse_ "
            "*_indices_copy indices_copy values_copy",
            "torch.Tensor": "to_sparse* sparse_* coalesce is_coalesced indices values col_indices "
            "crow_indices ccol_indices row_indices dense_dim resize_as_sparse_ smm sspaddmm",
            "torch.ops.aten": "_sparse_* sparse_*",
            "torch.cuda": "sparse",
        },
        "torch.sparse torch.cuda.sparse torch.backends.cusparselt",
    ),
    _Family(
        "there are no nested tensors; pad the rows, as nn.utils.rnn.pad_sequence does",
        {"torch": "jagged", "torch.Tensor": "to_padded_tensor"},
        "torch.nested",
    ),
    _Family(
        "there are no masked tensors; use a mask beside the tensor, with masked_fill or where",
        {}, "torch.masked",
    ),
    _Family(
        "there are no quantised tensors; use an integer dtype, with scales beside it",
        {
            "torch": "q_* quantize* qint* quint* qscheme int_repr dequantize empty_quantized "
            "fake_quantize* fused_moving_avg_obs* choose_qparams* fbgemm_* per_* QInt* QUInt* "
            "int[1-7] uint[1-7] bit bits* float4_*",
            "torch.Tensor": "q_* qscheme int_repr dequantize",
        },
        "torch.ao torch.quantization torch.nn.quantized torch.nn.qat torch.nn.intrinsic "
        "torch.nn.quantizable torch.backends.quantized",
    ),
    _Family(
        "programs are not compiled to TorchScript; call the function as it is",
        {
            "torch": "Script* *Type AliasDb Argument* Block CallStack Code CompilationUnit "
            "CompleteArgumentSpec ConcreteModule* ErrorReport ExecutionPlan FileCheck "
            "FunctionSchema Future Gradient Graph* IODescriptor JITException LiteScriptModule "
            "ModuleDict BufferDict ParameterDict Node OperatorInfo StaticModule TracingState Type "
            "Use Value DeepCopyMemoTable import_ir_module* parse_* merge_type_from_type_comment "
            "unify_type_list fork wait get_file_path Capsule",
            "torch.nn.functional": "BroadcastingList* assert_int_or_pair",
            "torch.jit.annotations": "*Type EvalEnv Module ann_to_type check_fn get_* is_* "
            "parse_type_line split_type_line try_*",
            "torch.jit": "trace* load save Attribute CompilationUnit "
            "Error Future ONNXTracedModule RecursiveScriptClass ScriptWarning "
            "TopLevelTracedModule Traced* Trac* enable_onednn_fusion export_opnames fuser "
            "isinstance jit_module_from_flatbuffer "
            "last_executed_optimized_graph onednn_fusion_enabled optimized_execution "
            "run_frozen_optimizations save_jit_module_to_flatbuffer script_method "
            "set_fusion_strategy strict_fusion",
        },
        "torch.jit.frontend torch.jit.generate_bytecode torch.jit.mobile torch.jit.quantized "
        "torch.jit.unsupported_tensor_ops torch.utils.bundled_inputs torch.utils.mobile_optimizer "
        "torch.utils.show_pickle torch.utils.throughput_benchmark torch.nn.cpp",
    ),
    _Family(
        "programs are not traced into graphs; call the function as it is, or give it to gt.fuse",
        {
            "torch": "sym_fresh_size sym_constrain_range*",
            "torch.compiler": "CacheInfo config *_backend keep_*_unsafe skip_*_unsafe "
            "load_cache_artifacts save_cache_artifacts load_compiled_function "
            "set_enable_guard_collectives",
        },
        "torch._dynamo torch._inductor torch.fx torch.export torch._export "
        "torch._higher_order_ops torch._prims_common torch._functorch",
    ),
    _Family(
        "it belongs to a device that gputensor has no backend for; use cpu or cuda",
        {
            "torch": "*_ipu_* *_xla_* mkldnn_* miopen_* is_vulkan_available",
            "torch.Tensor": "ipu mtia xpu to_mkldnn",
            "torch.backends.cuda": "preferred_rocm_fa_library",
            "torch.backends.mkl": "verbose",
            "torch.backends.mps": "get_core_count get_name is_macos*",
            "torch.mps": "*", "torch.mtia": "*", "torch.xpu": "*",
        },
        "torch.backends.kleidiai torch.backends.miopen torch.backends.nnpack torch.backends.xeon "
        "torch.mps.event torch.mps.profiler torch.mtia.memory torch.mtia.mtia_graph "
        "torch.xpu.graphs torch.xpu.memory torch.xpu.random torch.xpu.streams",
    ),
    _Family(
        "it is a part of another operator; call that, such as conv2d, batch_norm or nn.LSTM",
        {
            "torch": "cudnn_* batch_norm_* native_norm slice_inverse autocast_*crement_nesting "
            "lstm lstm_cell gru gru_cell rnn_tanh* rnn_relu*",
            "torch.Tensor": "slice_inverse",
            "torch.nn.functional": "scaled_*mm ScalingType SwizzleType",
        },
    ),
    _Family(
        "it is internal to PyTorch",
        {
            "torch._C._functorch": "*", "torch._functorch.vmap": "_*",
            "torch": "AVG SUM AggregationType Benchmark* ThroughputBenchmark DisableTorchFunction* "
            "*erializationStorageContext DispatchKey* ExcludeDispatchKeyGuard *Logger LoggerBase "
            "PyTorchFile* StreamObjType DeviceObjType FatalError init_num_threads cpp "
            "classproperty prepare_multiprocessing_environment profiler_allow_* "
            "thread_safe_generator compiled_with_cxx11_abi",
            "torch.autograd": "DeviceType NestedIOFunction SavedTensor enforce_grad_layout_policy "
            "has_torch_function is_view_replay_enabled *_multithreading_enabled",
            "torch.cuda": "CudaError DeferredCudaCallError check_error cudaStatus cudart "
            "current_*_handle get_gencode_flags",
            "torch.amp.autocast_mode": "autocast_decorator",
            "torch.autograd.gradcheck": "get_*_jacobian*",
            "torch.autograd.variable": "ImperativeEngine VariableMeta",
            "torch.backends.cuda": "cuBLASModule cuFFTPlanCache* cublas*_workspace_size "
            "blas_workspace_size",
            "torch.utils.flop_counter": "*_flop *_flop_count convert_* get_*_str get_shape "
            "normalize_tuple shape_wrapper register_flop_formula",
            "torch.autograd.graph": "set_*stream* region_activation_memory_budget",
            "torch.autograd.function": "BackwardCFunction FunctionMeta InplaceFunction "
            "NestedIOFunction",
            "torch.autograd.grad_mode": "enforce_grad_layout_policy",
            "torch.func": "debug_unwrap",
            "torch.library": "get_ctx get_kernel",
            "torch.nn.parameter": "UninitializedTensorMixin",
            "torch.nn.utils.rnn": "PackedSequence_ bind",
            "torch.overrides": "enable_reentrant_dispatch redispatch_function",
            "torch.utils": "ThroughputBenchmark get_cpp_backtrace swap_tensors",
            "torch.utils.checkpoint": "CheckpointFunction DefaultDeviceType GraphExecGroup "
            "SavedTensor",
            "torch.utils.hooks": "BackwardHook",
            "torch.fft": "Tensor",
            "torch.functional": "has_torch_function*",
            "torch.return_types": "all_return_types pytree_register_structseq",
            "torch.cuda.amp": "amp_definitely_not_available",
            "torch.cuda.amp.common": "amp_definitely_not_available",
            "torch.multiprocessing": "reducer", "torch.multiprocessing.pool": "clean_worker",
            "torch.multiprocessing.queue": "ConnectionWrapper",
            "torch.utils.dlpack": "DLDeviceType",
            "torch.nn": "factory_kwargs",
            "torch.nn.functional": "has_torch_function*",
            "torch.random": "thread_safe_generator",
        },
        "torch._subclasses torch.backends.python_native torch.distributed.argparse_util "
        "torch.distributed.c10d_logger torch.distributed.collective_utils "
        "torch.distributed.config torch.distributed.debug torch.distributed.flight_recorder "
        "torch.distributed.logging_handlers torch.distributed.remote_device "
        "torch.multiprocessing.reductions torch.utils.backend_registration "
        "torch.utils.cpp_backtrace torch.utils.debug_log torch.utils.file_baton "
        "torch.utils.module_tracker torch.utils.serialization torch.utils.weak torch.numa",
    ),
    _Family(
        "the profiler of gputensor is gt.profiler.profile",
        {
            "torch.autograd": "Profiler* kineto_available", "torch.cuda": "profiler",
            "torch.profiler": "DeviceType ExecutionTraceObserver RecordScope",
            "torch.profiler.itt": "mark range*",
            "torch.profiler.profiler": "ExecutionTraceObserver",
            "torch.autograd.profiler": "DeviceType EnforceUnique FunctionEvent KinetoStepTracker "
            "MemRecordsAcc ProfilerConfig ProfilerState emit_itt load_nvprof parse_nvprof_trace",
        },
        "torch.monitor torch.autograd.profiler_legacy torch.autograd.profiler_util "
        "torch.cuda.profiler",
    ),
    _Family(
        "operators are cast by their row in native_functions.yaml, those of users by "
        "gt.amp.custom_fwd",
        {"torch.library": "register_autocast"},
    ),
    _Family(
        "a device has a package of its own; see docs/extensions/new_device.md",
        {"torch.utils": "*_privateuse1_backend"},
    ),
    _Family(
        "the whole block is computed again; parts of it cannot be chosen",
        {
            "torch.utils.checkpoint": "CheckpointPolicy SAC_IGNORED_OPS "
            "SelectiveCheckpointContext create_selective_checkpoint_contexts",
        },
    ),
    _Family(
        "one process for each device trains with DistributedDataParallel",
        {
            "torch.nn.parallel": "data_parallel gather parallel_apply replicate scatter "
            "DistributedDataParallelCPU",
            "torch.nn.parallel.data_parallel": "data_parallel",
        },
        "torch.nn.parallel.scatter_gather torch.nn.parallel.replicate "
        "torch.nn.parallel.parallel_apply torch.nn.parallel.comm torch.cuda.comm",
    ),
    _Family("einops has rearrange; it takes gputensor's tensors", {"torch.func": "rearrange"}),
    _Family(
        "it is not an operator here; call the method of the tensor",
        {"torch.ops.aten": "_pin_memory pin_memory is_pinned _convolution"},
    ),
    _Family(
        "files hold only tensors and containers, and no code from a file runs; store plain values",
        {
            "torch.serialization": "get_unsafe_globals_in_checkpoint register_package skip_data "
            "LoadEndianness SourceChangeWarning StorageType check_module_version* "
            "default_restore_location *_options *_default_load_endianness location_tag mkdtemp "
            "normalize_storage_type storage_to_tensor_type validate_*_device",
        },
    ),
    _Family(
        "processes of a group are started by mpiexec",
        {}, "torch.distributed.run torch.distributed.launcher torch.distributed.launch "
        "torch.distributed.rendezvous",
    ),
    _Family(
        "MPI's launcher connects the ranks; call all_reduce, broadcast and the other collectives",
        {
            "torch.distributed": "*Options BackendConfig BuiltinCommHookType DebugLevel DeviceMesh "
            "FileStore GroupName HashStore Logger PrefixStore ProcessGroupGloo "
            "QueueEmptyError Reducer Store TCPStore all_gather_coalesced all_gather_single "
            "all_reduce_coalesced all_to_all breakpoint get_backend_config *debug_level* "
            "get_pg_count group init_device_mesh monitored_barrier new_subgroups* record_comm "
            "*_object_list reduce_op reduce_scatter_single register_rendezvous_handler rendezvous "
            "shrink_group split_group supports_complex",
            "torch.distributed.constants": "default_pg_nccl_timeout",
            "torch.distributed.distributed_c10d": "*Options BackendConfig DebugLevel GroupName "
            "PrefixStore ProcessGroupGloo Store all_gather_coalesced all_gather_single "
            "all_reduce_coalesced all_to_all get_backend_config get_debug_level get_pg_count "
            "group has_torch_function monitored_barrier new_subgroups* record_comm "
            "*_object_list reduce_op reduce_scatter_single shrink_group split_group "
            "supports_complex",
        },
    ),
    _Family(
        "storages of all dtypes have one class; read the tensor's dtype",
        {
            "torch": "?*Storage StorageBase", "torch.cuda": "*Storage",
            "torch.Tensor": "storage_type",
        },
    ),
    _Family(
        "it is removed from PyTorch, or about to be; use the function of gt.linalg",
        {
            "torch": "eig symeig solve lstsq matrix_rank lobpcg",
            "torch.Tensor": "eig symeig solve lstsq",
        },
    ),
    _Family(
        "it is deprecated in PyTorch; use reshape",
        {"torch.Tensor": "resize resize_as reinforce"},
    ),
    _Family(
        "it is deprecated in PyTorch; use nn.Sequential, or nn.LocalResponseNorm",
        {
            "torch.nn": "Container CrossMapLRN2d", "torch.nn.modules": "Container",
            "torch.nn.modules.container": "Container",
        },
    ),
    _Family(
        "modules take their weights by load_state_dict, in place",
        {"torch.Tensor": "module_load"},
    ),
    _Family(
        "the allocator of gputensor cannot be replaced; gt.cuda.set_memory_limit bounds it",
        {
            "torch.cuda": "CUDAPluggableAllocator MemPool use_mem_pool caching_allocator_* "
            "change_current_allocator host_memory_* reset_*host_memory_stats ipc_collect",
            "torch.cuda.memory": "CUDAPluggableAllocator MemPool use_mem_pool caching_allocator_* "
            "change_current_allocator host_memory_* reset_*host_memory_stats",
        },
    ),
    _Family(
        "gputensor asks no management library; nvidia-smi has these numbers",
        {
            "torch.cuda": "utilization temperature power_draw clock_rate memory_usage "
            "device_memory_used list_gpu_processes",
            "torch.cuda.memory": "list_gpu_processes",
        },
    ),
    _Family(
        "it belongs to PyTorch's own kernels; gt.cuda.Kernel runs yours",
        {
            "torch.cuda": "jiterator tunable GreenContext nccl",
            "torch.nn.attention": "WARN_FOR_UNFUSED_KERNELS *flash_attention_impl*",
        },
        "torch.cuda.jiterator torch.cuda.tunable torch.cuda.gds torch.cuda.green_contexts "
        "torch.cuda.nccl torch.utils.cpp_extension",
    ),
    _Family(
        "optimizers have no functions for one step; use the class",
        {f"torch.optim.{name}": name for name in (
            "adadelta", "adagrad", "adam", "adamax", "adamw", "asgd", "nadam", "radam", "rmsprop",
            "rprop", "sgd",
        )},
    ),
    _Family(
        "hooks of modules keep a norm's state; use remove_weight_norm and remove_spectral_norm",
        {"torch.nn.utils.spectral_norm": "SpectralNorm*Hook"},
    ),
    _Family(
        "it tells of PyTorch's build; `gputensor doctor` tells of gputensor's",
        {}, "torch.utils.collect_env torch.compiler.config",
    ),
    _Family(
        "programs in C++ are compiled against PyTorch, and instructions are not counted",
        {
            "torch.utils.benchmark": "CallgrindStats CopyIfCallgrind Colorize FunctionCount* "
            "Fuzz* Language ParameterAlias ordered_unique trim_sigfig unit_to_english",
            "torch.utils.benchmark.utils.common": "ordered_unique trim_sigfig unit_to_english",
            "torch.utils.benchmark.utils.compare": "Colorize Table optional_min",
            "torch.utils.benchmark.utils.timer": "CPPTimer Language",
        },
        "torch.utils.benchmark.op_fuzzers torch.utils.benchmark.utils.compile "
        "torch.utils.benchmark.utils.cpp_jit torch.utils.benchmark.utils.fuzzer "
        "torch.utils.benchmark.utils.sparse_fuzzer torch.utils.benchmark.utils.valgrind_wrapper",
    ),
    _Family(
        "nothing warns of synchronisation; gt.audit_copies reports copies between devices",
        {"torch.cuda": "*_sync_debug_mode"},
    ),
    _Family(
        "there are no data pipes; use Dataset and IterableDataset",
        {
            "torch.utils.data": "*DataPipe DataChunk argument_validation functional_datapipe "
            "*_datapipes_determinism non_deterministic runtime_validation*",
        },
        "torch.utils.data.datapipes torch.utils.data.graph torch.utils.data.graph_settings",
    ),
    _Family(
        "parameters are not spread over devices; gt.distributed has data parallel training",
        {},
        "torch.distributed.tensor torch.distributed.fsdp torch.distributed._composable "
        "torch.distributed.algorithms torch.distributed._functional_collectives "
        "torch.distributed.device_mesh torch.distributed.checkpoint torch.distributed.pipelining "
        "torch.distributed.elastic torch.distributed._tensor torch.distributed.nn "
        "torch.distributed.optim torch.distributed.rpc torch.distributed.autograd",
    ),
    _Family(
        "gradients are compressed by fp16_compress_hook and bf16_compress_hook of default_hooks; "
        "for another compression give register_comm_hook a function",
        {}, "torch.distributed.algorithms.ddp_comm_hooks",
    ),
    _Family("models are not written as ONNX", {}, "torch.onnx"),
    _Family(
        "attention takes no function that changes its scores; give it a mask",
        {"torch.nn.attention.bias": "CausalBias CausalVariant"},
        "torch.nn.attention.flex_attention torch.nn.attention.varlen",
    ),
    _Family("models are not packed with their code; use Python's packages", {}, "torch.package"),
    _Family(
        "nothing is downloaded; fetch the file, and give it to load",
        {"torch.hub": "load* download_url_to_file list help"},
        "torch.utils.model_zoo",
    ),
    _Family(
        "curves are not written for TensorBoard; the package tensorboardX writes them",
        {}, "torch.utils.tensorboard",
    ),
    _Family(
        "a class cannot replace functions of tensors this way; override __gputensor_dispatch__",
        {
            "torch.library": "register_torch_dispatch",
        },
    ),
)  # fmt: skip
_MODULES = {name: family.why for family in _FAMILIES for name in family.modules.split()}


def modules() -> list[str]:
    """Return PyTorch's modules that are left out."""
    return [*_MODULES]


def patterns() -> list[tuple[str, str]]:
    """Return (module, pattern) for each pattern of names."""
    return [(module, form) for family in _FAMILIES
            for module, forms in family.names.items() for form in forms.split()]  # fmt: skip


@cache
def why(module: str, name: str = "") -> str:
    """Return the reason why PyTorch's module, or a name in it, is left out. Return "" if it is not
    left out.

    module: PyTorch's name of the module; `torch.Tensor` for the class.
    """
    parts = f"{module}.{name}".rstrip(".").split(".")
    for n in range(len(parts), 1, -1):
        if found := _MODULES.get(".".join(parts[:n])):
            return found
    for family in _FAMILIES:
        if name and any(fnmatchcase(name, form) for form in family.names.get(module, "").split()):
            return family.why
    return ""
