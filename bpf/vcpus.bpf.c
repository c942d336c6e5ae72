/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * vcpus: which threads run virtual CPUs of KVM's, and which ones.
 *
 * KVM has the scheduler tell it when such a thread leaves its CPU. The record by which it asks for that lies
 * in its struct kvm_vcpu, so the record leads there. The thread has one while it is inside of KVM_RUN, also
 * while its guest sleeps there, and none while its program handles what the guest did.
 *
 * KVM may be a module. Where the kernel's own BTF does not have its structures the module's has, so this is loaded
 * after it.
 *
 * Nothing is held while it is read: the thread may leave KVM_RUN, and its machine may end. Then what is read may be
 * of something else, which is no fault. A record that leads to no machine of the thread's own process is left out.
 */
#include <vmlinux.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <vcpus.h>

char _license[] SEC("license") = "GPL";

/*
 * What only this program looks at. In vmlinux.h it would change the policies' versions. The kernel's names are
 * those before the underscores.
 */
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct hlist_node {
	struct hlist_node *next;
};

struct hlist_head {
	struct hlist_node *first;
};

struct preempt_notifier {
	struct hlist_node link;
};

struct mm_struct;

struct kvm {
	struct mm_struct *mm;
};

struct kvm_vcpu {
	struct kvm *kvm;
	struct preempt_notifier preempt_notifier;
	int vcpu_id;
};

struct task_struct___vcpus {
	struct mm_struct *mm;
	struct hlist_head preempt_notifiers;
};

struct seq_file;

struct bpf_iter_meta {
	struct seq_file *seq;
};

struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
};

#pragma clang attribute pop

/* Whether this kernel has what is read here, and says where. */
static __always_inline bool are_known(void)
{
	return bpf_core_field_exists(struct task_struct___vcpus, preempt_notifiers.first) &&
	       bpf_core_field_exists(struct kvm_vcpu, preempt_notifier.link) &&
	       bpf_core_field_exists(struct kvm_vcpu, vcpu_id) &&
	       bpf_core_field_exists(struct kvm_vcpu, kvm) &&
	       bpf_core_field_exists(struct kvm, mm);
}

SEC("syscall")
int vcpus_are_known(void *unused)
{
	return are_known();
}

/* Is called for each thread of the host. */
SEC("iter/task")
int vcpus_of_threads(struct bpf_iter__task *ctx)
{
	struct task_struct *p = ctx->task;
	struct task_struct___vcpus *own = (void *)p;
	struct vcpu_thread found = {};
	struct hlist_node *record;
	struct kvm_vcpu *vcpu;

	/* The verifier does not read what comes after this where fields are not known. */
	if (!p || !are_known())
		return 0;
	record = BPF_CORE_READ(own, preempt_notifiers.first);
	if (!record)
		return 0;
	vcpu = (void *)record - bpf_core_field_offset(struct kvm_vcpu, preempt_notifier.link);
	if (BPF_CORE_READ(vcpu, kvm, mm) != BPF_CORE_READ(own, mm))
		return 0;
	found.pid = p->tgid;
	found.tid = p->pid;
	found.vcpu_id = BPF_CORE_READ(vcpu, vcpu_id);
	bpf_seq_write(ctx->meta->seq, &found, sizeof(found));
	return 0;
}
