"""A Case for Generalizable DNN Cost Models for Mobile Devices (Ganesan et al., IISWC 2020), from its published measurements."""
