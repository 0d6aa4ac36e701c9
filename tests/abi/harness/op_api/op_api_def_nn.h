// Nothing: the vendor has names of operators here, which its tests do not use.
