/* SPDX-License-Identifier: GPL-2.0-only */
/* All that is shared, with the C library's names of its types in place of the kernel's. */
#ifndef METASCHED_ABI_H
#define METASCHED_ABI_H

#include <stdint.h>

/* No typedefs: these would be types of their own in Rust. */
#define u8 uint8_t
#define u16 uint16_t
#define u32 uint32_t
#define u64 uint64_t
#define s32 int32_t
#define s64 int64_t

#include <stdbool.h>
#include <cpus.h>
#include <types.h>
#include <wait.h>
#include <follow.h>
#include <overhead.h>
#include <paravirt.h>
#include <vcpus.h>
#include <metasched_paravirt.h>

#endif
