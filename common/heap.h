#pragma once

namespace lockstep {

// From now on large blocks go back to the system as soon as they are freed. By default the C
// library learns from the first of them to keep blocks of up to 32 MiB, and a process that once
// held many large requests would keep their memory. Once, before there are threads.
void ReturnLargeBlocks();

// Gives back what this thread freed in small blocks, too, and others as far as may be. Takes
// milliseconds where there is much.
void ReturnFreedMemory();

}  // namespace lockstep
