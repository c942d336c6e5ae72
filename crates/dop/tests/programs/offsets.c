// SPDX-License-Identifier: GPL-2.0-only
// Prints where each field of the page is and how long it is, as a C compiler has it.
#include <metasched_paravirt.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define FIELD(name)                                                               \
	printf("%s %zu %zu\n", #name, offsetof(struct metasched_paravirt_page, name), \
	       sizeof(((struct metasched_paravirt_page *)0)->name))

int main(void)
{
	unsigned long long magic = METASCHED_PARAVIRT_MAGIC;
	char text[9] = {0};
	memcpy(text, &magic, 8);
	printf("%s %d %d %zu\n", text, METASCHED_PARAVIRT_VERSION, METASCHED_PARAVIRT_BYTES,
	       sizeof(struct metasched_paravirt_page));
	FIELD(magic);
	FIELD(version);
	FIELD(sequence);
	FIELD(windows);
	FIELD(window_ns);
	FIELD(began_ns);
	FIELD(ended_ns);
	FIELD(phantoms_milli);
	FIELD(idle_cpus_milli);
	FIELD(vcpus);
	FIELD(cpus);
	FIELD(owed_cpus_milli);
	FIELD(owing_cpus_milli);
	FIELD(reserved);
	return 0;
}
