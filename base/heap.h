/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Where malloc() takes memory from. By default, glibc gives each thread a heap of its own,
 * anywhere in the address space.
 *
 * librdmacm before 52 (Debian 12 has 44) sorts devices by the lower half of the difference
 * of their addresses. If threads of different heaps were the first to see them, that can be
 * the wrong order, and when one of them is removed, librdmacm loses another one that stays:
 * every login there is refused until the program ends. In one heap they are near each other.
 */
#ifndef BASE_HEAP_H
#define BASE_HEAP_H

/*
 * All threads of the program share one heap from now on. Call this in main(), before
 * threads; a library cannot, because it is not the library's heap. Nothing here allocates
 * for each I/O, so no thread waits for the heap.
 */
void heap_share(void);

#endif
