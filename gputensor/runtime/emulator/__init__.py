"""What `runtime.cuda_emulator` is built on: g++, the shim headers, the engine and the queues."""
