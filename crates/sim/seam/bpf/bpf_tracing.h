/* SPDX-License-Identifier: GPL-2.0-only */
/* A program is a plain function here: the engine passes its arguments as such. */
#ifndef __BPF_TRACING_H__
#define __BPF_TRACING_H__

#define BPF_PROG(name, args...) name(args)

#endif
