// SPDX-License-Identifier: GPL-2.0-only
/*
 * Prints every policy of policies.def, with the options and counters that its options.h
 * declares, as the Rust expression that src/policies.rs includes. A program, so that the
 * compiler works out every value and joins every string.
 */
#include <stdio.h>
#include <abi.h>
#include <options.gen.h>

static void text(const char *field, const char *value)
{
	printf("%s: \"", field);
	for (; *value; value++) {
		if (*value == '"' || *value == '\\')
			putchar('\\');
		putchar(*value);
	}
	printf("\", ");
}

static void number(const char *field, uint64_t value)
{
	printf("%s: %llu, ", field, (unsigned long long)value);
}

static void option(const char *name, const char *unit, uint64_t dfl, uint64_t least,
		   uint64_t most, const char *help)
{
	printf("OptionInfo { ");
	text("name", name);
	text("unit", unit);
	number("default", dfl);
	number("least", least);
	number("most", most);
	text("help", help);
	printf("},\n");
}

static void counter(const char *name, const char *description)
{
	printf("CounterInfo { ");
	text("name", name);
	text("description", description);
	printf("},\n");
}

#define PRINT_OPTION(policy, name, unit, dfl, least, most, help)                                   \
	option(#name, unit, dfl, least, most, help);
#define PRINT_COUNTER(policy, name, description) counter(#name, description);

int main(void)
{
	printf("&[\n");
#define POLICY(name_, summary, ...)                                                                \
	printf("PolicyInfo { ");                                                                   \
	text("name", #name_);                                                                      \
	text("summary", summary);                                                                  \
	printf("options: &[\n");                                                                   \
	name_##_options(PRINT_OPTION)                                                              \
	printf("], counters: &[\n");                                                               \
	name_##_counters(PRINT_COUNTER)                                                            \
	printf("] },\n");
#include <policies.def>
	printf("]\n");
	return 0;
}
