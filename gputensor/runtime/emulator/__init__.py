"""The parts of `runtime.cuda_emulator`: g++, the shim headers, the engine, and the queues."""
