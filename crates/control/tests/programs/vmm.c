/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * vmm: a machine whose only virtual CPU has the number 3. Nobody starts that one, so it sleeps in KVM for ever.
 */
#include <fcntl.h>
#include <linux/kvm.h>
#include <stdio.h>
#include <sys/ioctl.h>

int main(void)
{
	int vm = ioctl(open("/dev/kvm", O_RDWR), KVM_CREATE_VM, 0);
	int vcpu = ioctl(vm, KVM_CREATE_IRQCHIP, 0) ? -1 : ioctl(vm, KVM_CREATE_VCPU, 3);

	if (vcpu < 0) {
		perror("vmm: there is no virtual CPU");
		return 1;
	}
	for (;;)
		ioctl(vcpu, KVM_RUN, 0);
}
