/* SPDX-License-Identifier: GPL-2.0-only */
/* What vcpus.bpf.c says of threads, for user space. */
#ifndef METASCHED_VCPUS_H
#define METASCHED_VCPUS_H

/* A thread that runs a virtual CPU of KVM's. */
struct vcpu_thread {
	s32 pid; /* its process */
	s32 tid;
	u32 vcpu_id; /* KVM's number of the virtual CPU */
};

#endif
