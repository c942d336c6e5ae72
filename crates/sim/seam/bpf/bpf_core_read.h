/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * There is one kernel here and its types are known when this is compiled, so
 * nothing is relocated: what compiles exists.
 */
#ifndef __BPF_CORE_READ_H__
#define __BPF_CORE_READ_H__

#define bpf_core_field_exists(field...) 1
#define bpf_core_type_exists(type) 1
#define bpf_core_enum_value_exists(enum_type, enum_value) 1
#define bpf_core_enum_value(enum_type, enum_value) (enum_value)
#define bpf_core_type_matches(type) 1

#define BPF_CORE_READ_1(p, a) ((p)->a)
#define BPF_CORE_READ_2(p, a, b) ((p)->a->b)
#define BPF_CORE_READ_3(p, a, b, c) ((p)->a->b->c)
#define BPF_CORE_READ_PICK(_1, _2, _3, name, ...) name
#define BPF_CORE_READ(p, args...) \
	BPF_CORE_READ_PICK(args, BPF_CORE_READ_3, BPF_CORE_READ_2, BPF_CORE_READ_1)(p, args)

#endif
